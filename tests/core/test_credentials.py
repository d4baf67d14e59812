"""Secrets are found whatever they are dressed in, and what only looks like one passes."""

from __future__ import annotations

import unicodedata
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keeps.core.credentials import find_secrets, without_secrets
from keeps.core.errors import SecretRefused
from keeps.core.screen import refuse_secrets

# Put together here, so that no scanner takes this file for a leak.
_HEX = "9f86d081884c7d659a2feaa0c55ad015"
_MIX = "Zq8Lr2Vt6Xn4Kp0Wm3Sd7Gh1Jb5Fc9"
PEM = f"-----BEGIN RSA PRIVATE KEY-----\nMIIEow{_MIX}\n{_MIX}\n-----END RSA PRIVATE KEY-----"

SECRETS = [
    ("api key", f"my key is {'sk-live-'}4eC39HqLyjWDarjtT1zdp7dc", "sk-live-4eC39HqLyjWDarjtT1zdp7dc"),
    ("api key", "AWS says AKIA" + "IOSFODNN7EXAMPLE today", "AKIAIOSFODNN7EXAMPLE"),
    ("api key", "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", None),
    ("api key", "push with ghp_" + _MIX + "aB12cD", None),
    ("api key", "github_pat_11ABCDEFG0" + _MIX, None),
    ("api key", "GitLab glpat-" + _MIX[:20], None),
    ("api key", "slack xoxb-" + "123456789012-abcDEF123456", None),
    ("api key", "hook https://hooks.slack.com/services/" + "T00000000/B00000000/" + _MIX[:24], None),
    ("api key", "stripe sk_live_" + _MIX, None),
    ("api key", "signing whsec_" + _MIX, None),
    ("api key", "openai sk-proj-" + _MIX + "_" + _MIX, None),
    ("api key", "claude sk-ant-api03-" + _MIX + "-" + _MIX, None),
    ("api key", "maps AIza" + "SyD" + _MIX + "ab", None),
    ("api key", "hf_" + _MIX + " is the token", None),
    ("api key", "npm_" + _MIX + "aB12cD", None),
    ("api key", "pypi-AgEIcHlwaS5vcmc" + _MIX + _MIX, None),
    ("api key", f"sp-{'k7f3a9b2c8d1e4f6a0b5'}-{_MIX}{_MIX[:13]}", None),
    ("api key", "SG." + _MIX[:22] + "." + _MIX, None),
    ("api key", "bot 123456789:AA" + _MIX + "xyz", None),
    ("api key", "api_key=" + _MIX, _MIX),
    ("api key", 'config has "clientSecret": "' + _MIX + '"', _MIX),
    ("api key", "Der API-Schlüssel ist " + _MIX, _MIX),
    ("api key", "密钥: " + _MIX, _MIX),
    ("api key", "the token is " + _HEX, _HEX),
    ("private key", "keep\n" + PEM + "\nsafe", PEM),
    ("private key", PEM.replace("RSA ", "OPENSSH ")[:-20], None),
    ("private key", PEM.replace("RSA PRIVATE KEY", "PGP PRIVATE KEY BLOCK"), None),
    ("password", "my password is hunter2", "hunter2"),
    ("password", "Password: correct-horse-9", "correct-horse-9"),
    ("password", "the password for the router is Tr0ub4dor&3, write it down", "Tr0ub4dor&3"),
    ("password", "the wifi password is swordfish.", "swordfish"),
    ("password", 'pwd: "open sesame now"', "open sesame now"),
    ("password", "Mein Passwort für GitHub ist Sommer2024!", None),
    ("password", "mi contraseña es Verano2024", "Verano2024"),
    ("password", "mon mot de passe est Soleil-42", "Soleil-42"),
    ("password", "минуту, мой пароль: Zima2024x", "Zima2024x"),
    ("password", "密码是 Abc12345", "Abc12345"),
    ("password", "كلمة المرور: Qamar2024", "Qamar2024"),
    ("password", "my PIN is 4821", "4821"),
    ("password", "postgres://app:s3cr3tpw@db.example:5432/app", "s3cr3tpw"),
    ("session token", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N", None),
    ("session token", "Authorization: Bearer " + _MIX, _MIX),
    ("session token", "Cookie: sessionid=" + _HEX, _HEX),
    ("recovery code", "recovery code: 8f3a-29bc-11de", "8f3a-29bc-11de"),
    ("recovery code", "Wiederherstellungscode: A1B2-C3D4", "A1B2-C3D4"),
    ("recovery code", "otpauth://totp/x:me?secret=JBSWY3DPEHPK3PXP", None),
    (
        "seed phrase",
        "my seed phrase is legal winner thank year wave sausage worth useful legal winner thank yellow",
        "legal winner thank year wave sausage worth useful legal winner thank yellow",
    ),
    ("seed phrase", "ledger: 1. legal 2. winner 3. thank 4. year 5. wave 6. sausage 7. worth 8. useful "
     "9. legal 10. winner 11. thank 12. yellow", None),
    ("card number", "pay with 4111 1111 1111 1111 12/27", "4111 1111 1111 1111"),
    ("card number", "amex 3782-822463-10005", "3782-822463-10005"),
    ("card number", "5555555555554444", "5555555555554444"),
    ("card number", "4111 1111 1111\n1111", "4111 1111 1111\n1111"),
    ("card number", "4111_1111_1111_1111", "4111_1111_1111_1111"),
    ("card number", "0 0 4 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1", "4 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1"),
    ("password", "p\u0430ssw\u043erd: hunter2Xq", "hunter2Xq"),
    ("password", "pass-word: hunter2Xq", "hunter2Xq"),
    ("password", "my pw is hunter2Xq", "hunter2Xq"),
    ("password", "the password of the admin account for the server is hunter2Xq", "hunter2Xq"),
    ("password", "the password: correct horse battery staple", "correct horse battery staple"),
    ("password", "hasło to kot12345", "kot12345"),
    ("password", "Hasło do sieci w domu to kot12345.", "kot12345"),
    ("card number", "４１１１ １１１１ １１１１ １１１１ bitte", None),
    ("card number", "٤١١١١١١١١١١١١١١١", None),
    ("iban", "bitte auf DE89 3704 0044 0532 0130 00 überweisen", "DE89 3704 0044 0532 0130 00"),
    ("iban", "GB82WEST12345698765432", "GB82WEST12345698765432"),
    ("national id", "SSN 536-22-1234", "536-22-1234"),
    ("national id", "my NI number is AB 12 34 56 C", "AB 12 34 56 C"),
    ("national id", "Meine Steuer-ID lautet 86 095 742 719", "86 095 742 719"),
    ("national id", "DNI 12345678Z", "12345678Z"),
    ("national id", "NIE X1234567L", "X1234567L"),
    ("national id", "NIR 1 84 12 76 451 089 46", "1 84 12 76 451 089 46"),
    ("national id", "mijn BSN is 111222333", "111222333"),
    ("national id", "codice fiscale RSSMRA85T10A562S", "RSSMRA85T10A562S"),
    ("national id", "CPF 111.444.777-35", "111.444.777-35"),
    ("national id", "身份证 11010519491231002X", "11010519491231002X"),
    ("national id", "PESEL 44051401359", "44051401359"),
    ("national id", "Aadhaar 2341 2341 2346", "2341 2341 2346"),
    ("national id", "passport number C01X00T47", "C01X00T47"),
]  # fmt: skip

ORDINARY = [
    "my password manager is Bitwarden",
    "the password is stored in Bitwarden",
    "the password is required",
    "Password: required",
    "the password policy is under review",
    "passwords must be rotated every 90 days",
    "I forgot my password again",
    "das Passwort ist abgelaufen",
    "la contraseña es muy débil",
    "mon mot de passe est trop court",
    "pwd: /home/mara/projects",
    "pin the version to 4821",
    "order 4532015112830367",
    "order number 4111111111111112",
    "ISBN 978-3-16-148410-0",
    "ISBN 9780306406157",
    "call +49 170 1234567 after five",
    "phone 020 7946 0958 or (415) 555-2671",
    "commit 9fceb02d0ae598e95dc970b74767f19372d61af8 broke it",
    "sha256 e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "request 550e8400-e29b-41d4-a716-446655440000 failed",
    "key: 550e8400-e29b-41d4-a716-446655440000",
    'password=os.getenv("DB_PASSWORD")',
    '"sessionId": "kq3v0c1m5r8t2y7w9z4a"',
    "key is 9f86d081884c7d659a2feaa0c55ad015\nconversation is Harbour",
    "key is 9f86d081884c7d659a2feaa0c55ad015",
    "cache_key: 9f86d081884c7d659a2feaa0c55ad0159f86d081",
    "the memory k7f3a9b2c8d1e4f6a0b5 says so",
    "memory id: k7f3a9b2c8d1e4f6a0b5",
    "attribute:k7f3a9b2c8d1e4f6a0b5",
    "upgrade to version 2024.11.30.1234567",
    "the token limit is 128000",
    "the access token expires after one hour",
    "use token-based-authentication-with-refresh",
    "the key is release-candidate-for-production",
    "sk-learn-pipeline-for-classification is a nice name",
    "the key insight is that simplicity wins",
    "the secret ingredient is smoked paprika",
    "the bearer of this letter is my brother",
    "recovery codes are printed and in the safe",
    "recovery phrase is not needed for this wallet",
    "my seed catalogue lists tomato pepper bean carrot onion leek",
    "the wallet phrase was typed and then it was lost for ever in the big move of last year",
    "at 12:30 on 2026-11-30 we met 14 people in room 1234",
    "coordinates of the meeting 52.5200, 13.4050",
    "tracking number 1Z999AA10123456784",
    "serial 123-456-789",
    "invoice 2024-0001-0002-0003",
    "BIC COBADEFFXXX",
    "DE89 is a strange beginning of a sentence",
    "timestamp 1732924800000",
    "IMEI 356938035643809",
    "the DNI office opens at 9",
    "social security is debated in parliament",
    "temperature series 4000 4001 4002 4003",
    "see https://example.com/docs/session?id=12",
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl is my public key",
    "-----BEGIN CERTIFICATE-----",
]

HIDDEN = "\u200b\u200c\u200d\u2060\ufeff\u00ad\U000e0041"


@pytest.mark.parametrize(("name", "text", "secret"), SECRETS)
def test_a_secret_is_found_where_it_stands(name: str, text: str, secret: str | None) -> None:
    found = find_secrets(text)
    assert [each.name for each in found] == [name]
    if secret is not None:
        assert text[found[0].start : found[0].end] == secret


@pytest.mark.parametrize("text", ORDINARY)
def test_what_only_looks_like_a_secret_passes(text: str) -> None:
    assert [(each.name, text[each.start : each.end]) for each in find_secrets(text)] == []
    assert without_secrets(text) == (text, ())


@pytest.mark.parametrize("text", [text for name, text, _ in SECRETS if name in {"api key", "card number", "iban"}])
@pytest.mark.parametrize("hidden", HIDDEN)
def test_characters_that_nobody_sees_hide_nothing(text: str, hidden: str) -> None:
    dressed = hidden.join(text)
    shown, _ = without_secrets(dressed)
    assert find_secrets(dressed) != ()
    assert shown.replace(hidden, "") == without_secrets(text)[0]


@pytest.mark.parametrize("gap", ["\n", " \n  ", "\r\n"])
def test_a_line_break_inside_a_key_hides_nothing(gap: str) -> None:
    key = "ghp_" + _MIX + "aB12cD"
    text = f"the key {key[:18]}{gap}{key[18:]}"
    assert without_secrets(text) == ("the key [removed: api key]", ("api key",))


def test_wide_letters_hide_nothing() -> None:
    wide = "".join(chr(ord(char) + 0xFEE0) for char in "AKIA" + "IOSFODNN7EXAMPLE")
    assert unicodedata.normalize("NFKC", wide) != wide
    assert without_secrets(f"it is {wide}.") == ("it is [removed: api key].", ("api key",))


def test_several_secrets_go_each_with_its_class() -> None:
    text = "card 4111 1111 1111 1111, password is hunter2, card 5555555555554444"
    assert without_secrets(text) == (
        "card [removed: card number], password is [removed: password], card [removed: card number]",
        ("card number", "password"),
    )


def test_the_refusal_names_the_class_and_never_the_secret() -> None:
    with pytest.raises(SecretRefused) as refused:
        refuse_secrets("my password is hunter2", "the text")
    assert refused.value.message == "the text holds a secret (password), which is never stored: take it out"
    refuse_secrets("my password manager is Bitwarden", "the text")


@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=60), st.sampled_from([each[1] for each in SECRETS]))
def test_spans_are_in_order_and_inside_the_text_and_nothing_is_left(before: str, secret: str) -> None:
    text = f"{before}\n\n{secret}"
    found = find_secrets(text)
    assert found
    assert all(0 <= each.start < each.end <= len(text) for each in found)
    assert all(one.end <= two.start for one, two in pairwise(found))


@given(st.sampled_from([each[1] for each in SECRETS]))
def test_what_is_cleared_is_clear(text: str) -> None:
    cleared, classes = without_secrets(text)
    assert classes
    assert without_secrets(cleared) == (cleared, ())


@pytest.mark.parametrize(
    "seed",
    ["1 ", "4111 ", "4111-", "DE89 ", "-----BEGIN PRIVATE KEY-----", "password is ", "seed abandon ", "sk-a-",
     "eyJaaaaaaaa.", "a://b:", "recovery codes 1a2b-3c4d ", "a_key=", "\n a", "\u200b", "ssn 1"],
)  # fmt: skip
def test_long_hostile_texts_take_time_in_proportion_to_their_length(seed: str) -> None:
    # What takes the square of the length takes hours here, and the time limit of every test ends it.
    find_secrets(seed * (32 * 1024 // len(seed)))
