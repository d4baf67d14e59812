"""Numbers that check themselves: cards, bank accounts, and the numbers states give to people.

Each function takes the number without spaces and signs, in capitals, and says whether it can be a real one.
"""

from __future__ import annotations

from typing import Final

_IBAN_CHARS: Final = {
    code: int(chars)
    for code, chars in (
        item.split(":")
        for item in (
            "AD:24 AE:23 AL:28 AT:20 AZ:28 BA:20 BE:16 BG:22 BH:22 BR:29 BY:28 CH:21 CR:22 CY:28 CZ:24 DE:22 DK:18 "
            "DO:28 EE:20 EG:29 ES:24 FI:18 FO:18 FR:27 GB:22 GE:22 GI:23 GL:18 GR:27 GT:28 HR:21 HU:28 IE:22 IL:23 "
            "IQ:23 IS:26 IT:27 JO:30 KW:30 KZ:20 LB:28 LC:32 LI:21 LT:20 LU:20 LV:21 LY:25 MC:27 MD:24 ME:22 MK:19 "
            "MR:27 MT:31 MU:30 NL:18 NO:15 PK:24 PL:28 PS:29 PT:25 QA:29 RO:24 RS:22 SA:24 SC:31 SE:24 SI:19 SK:24 "
            "SM:27 ST:25 SV:28 TL:23 TN:24 TR:26 UA:29 VA:22 VG:24 XK:20"
        ).split()
    )
}
_DNI_LETTERS: Final = "TRWAGMYFPDXBNJZSQVHLCKE"
_RESIDENT_WEIGHTS: Final = (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)
_PESEL_WEIGHTS: Final = (1, 3, 7, 9, 1, 3, 7, 9, 1, 3, 1)
_CODICE_ODD: Final = (1, 0, 5, 7, 9, 13, 15, 17, 19, 21, 2, 4, 18, 20, 11, 3, 6, 8, 12, 14, 16, 10, 22, 25, 24, 23)
_DOUBLED: Final = str.maketrans("0123456789", "0246813579")
"""Twice a digit, its digits added up."""
_VERHOEFF_TURN: Final = (1, 5, 7, 6, 2, 8, 3, 0, 9, 4)


def luhn(digits: str) -> bool:
    """The check of cards and of Swedish and Canadian numbers."""
    return (sum(map(int, digits[-1::-2])) + sum(map(int, digits[-2::-2].translate(_DOUBLED)))) % 10 == 0


def card_chars(begin: str) -> tuple[int, ...]:
    """How many digits a card may have that begins with these four; none for no card's beginning."""
    if len(begin) < 4:
        return ()
    two, three, four = int(begin[:2]), int(begin[:3]), int(begin)
    if begin[0] == "4":
        return 16, 19
    if 51 <= two <= 55 or 2221 <= four <= 2720:
        return (16,)
    if two in (34, 37):
        return (15,)
    if two in (36, 38, 39) or 300 <= three <= 305:
        return (14,)
    others = two in (62, 65) or 644 <= three <= 649 or four == 6011 or 3528 <= four <= 3589
    return (16, 19) if others else ()


def is_card(digits: str) -> bool:
    """A number of one of the large card schemes, by its first digits, its length and Luhn's check."""
    return len(digits) in card_chars(digits[:4]) and len(set(digits)) > 1 and luhn(digits)


def iban_chars(country: str) -> int | None:
    """How many characters an account number of a country has; None for a country without them."""
    return _IBAN_CHARS.get(country)


def is_iban(text: str) -> bool:
    """An international bank account number: the country's length, and 1 modulo 97."""
    if len(text) != _IBAN_CHARS.get(text[:2]):
        return False
    return int("".join(str(int(char, 36)) for char in text[4:] + text[:4])) % 97 == 1


def is_ssn(digits: str) -> bool:
    """A US social security number: no checksum, but groups that are never given out."""
    return digits[:3] not in ("000", "666") and digits[0] != "9" and digits[3:5] != "00" and digits[5:] != "0000"


def is_nino(text: str) -> bool:
    """A UK national insurance number, by the letters that are used."""
    return text[:2] not in ("BG", "GB", "NK", "KN", "TN", "NT", "ZZ")


def is_dni(text: str) -> bool:
    """A Spanish DNI or NIE: its letter follows from the number."""
    digits = text[:-1].translate(str.maketrans("XYZ", "012"))
    return _DNI_LETTERS[int(digits) % 23] == text[-1]


def is_nir(text: str) -> bool:
    """A French social security number of 15 characters, Corsica included."""
    digits = text[:13].replace("2A", "19").replace("2B", "18")
    return digits.isdecimal() and int(text[13:]) == 97 - int(digits) % 97


def is_steuer_id(digits: str) -> bool:
    """A German tax id: one or two digits repeat, and the last one checks the rest."""
    if digits[0] == "0" or len(set(digits[:10])) not in (8, 9):
        return False
    product = 10
    for char in digits[:10]:
        total = (int(char) + product) % 10 or 10
        product = total * 2 % 11
    return (11 - product) % 10 == int(digits[10])


def is_bsn(digits: str) -> bool:
    """A Dutch citizen number: the sum with falling weights divides by 11."""
    total = sum(int(char) * weight for char, weight in zip(digits, (9, 8, 7, 6, 5, 4, 3, 2, -1), strict=True))
    return total % 11 == 0 and int(digits) > 0


def is_codice_fiscale(text: str) -> bool:
    """An Italian tax code: its last letter checks the rest."""
    total = 0
    for place, char in enumerate(text[:15]):
        value = int(char) if char.isdecimal() else ord(char) - ord("A")
        total += value if place % 2 else _CODICE_ODD[value]
    return chr(ord("A") + total % 26) == text[15]


def is_cpf(digits: str) -> bool:
    """A Brazilian tax number: two check digits."""
    if len(set(digits)) == 1:
        return False
    for known in (9, 10):
        total = sum(int(char) * (known + 1 - place) for place, char in enumerate(digits[:known]))
        if total * 10 % 11 % 10 != int(digits[known]):
            return False
    return True


def is_resident_id(text: str) -> bool:
    """A Chinese resident id of 18 characters: its birth date exists roughly, its last character checks the rest."""
    month, day = int(text[10:12]), int(text[12:14])
    if not (1 <= month <= 12 and 1 <= day <= 31 and text[6:8] in ("19", "20")):
        return False
    total = sum(int(char) * weight for char, weight in zip(text[:17], _RESIDENT_WEIGHTS, strict=True))
    return "10X98765432"[total % 11] == text[17]


def is_pesel(digits: str) -> bool:
    """A Polish number: a weighted sum that divides by ten."""
    return sum(int(char) * weight for char, weight in zip(digits, _PESEL_WEIGHTS, strict=True)) % 10 == 0


def is_aadhaar(digits: str) -> bool:
    """An Indian number: Verhoeff's check."""
    check = 0
    for place, char in enumerate(reversed(digits)):
        value = int(char)
        for _ in range(place % 8):
            value = _VERHOEFF_TURN[value]
        check = _dihedral(check, value)
    return check == 0 and digits[0] not in "01"


def _dihedral(left: int, right: int) -> int:
    """The product of two turns or flips of a pentagon, as numbers 0-9."""
    turn = (left + right) % 5 if left < 5 else (left - right) % 5
    return turn if (left < 5) == (right < 5) else turn + 5
