"""Secrets in text: keys, passwords, tokens, codes, and numbers of cards, accounts and people.

Found by shape, by the words around them, and by checksums where there are any. Characters that show nothing, wide
letters, digits of other scripts, line breaks inside a key, and spaces in a number do not hide them. Every pattern takes
time in proportion to the text.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from keeps.core.folding import in_latin, placed, unbroken
from keeps.core.official_numbers import numbers

API_KEY: Final = "api key"
PRIVATE_KEY: Final = "private key"
PASSWORD: Final = "password"
SESSION_TOKEN: Final = "session token"
RECOVERY_CODE: Final = "recovery code"
SEED_PHRASE: Final = "seed phrase"


@dataclass(frozen=True, slots=True)
class SecretFound:
    """A secret at `start:end` of a text, by its class: `api key`, `private key`, `password`, `card number` …"""

    name: str
    start: int
    end: int


_Hit = tuple[str, int, int]

# What a key of a provider begins with, and what follows.
_ISSUED: Final = re.compile(
    r"(?<![A-Za-z0-9])(?:"
    r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}(?![A-Za-z0-9])"
    r"|gh[pousr]_[A-Za-z0-9]{30,255}|github_pat_[A-Za-z0-9_]{22,255}"
    r"|gl(?:pat|ptt|rt|cbt|dt|ft|soat|agent|imt|oas)-[A-Za-z0-9_\-]{16,255}"
    r"|xox[abceoprs]-[A-Za-z0-9\-]{10,255}|xapp-\d-[A-Za-z0-9\-]{10,255}"
    r"|hooks\.slack\.com/(?:services|workflows)/[A-Za-z0-9/]{16,255}"
    r"|discord(?:app)?\.com/api/webhooks/\d{10,25}/[A-Za-z0-9_\-]{20,255}"
    r"|[srp]k_(?:live|test|prod)_[A-Za-z0-9]{10,255}|whsec_[A-Za-z0-9+/=]{20,255}"
    r"|AIza[A-Za-z0-9_\-]{35}|ya29\.[A-Za-z0-9_\-]{20,512}|GOCSPX-[A-Za-z0-9_\-]{20,64}"
    r"|hf_[A-Za-z0-9]{25,255}|api_org_[A-Za-z0-9]{25,255}|npm_[A-Za-z0-9]{30,255}|pypi-[A-Za-z0-9_\-]{50,512}"
    r"|sp-[a-z0-9]{20}-[A-Za-z0-9]{43}(?![A-Za-z0-9])"
    r"|SG\.[A-Za-z0-9_\-]{16,64}\.[A-Za-z0-9_\-]{16,128}|SK[0-9a-f]{32}(?![0-9A-Za-z])"
    "|key-[0-9a-f]{32}(?![0-9A-Za-z])"
    r"|\d{8,10}:AA[A-Za-z0-9_\-]{33}(?![A-Za-z0-9_\-])"
    r"|do[opr]_v1_[0-9a-f]{64}|shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}|dapi[0-9a-f]{32}(?![0-9A-Za-z])"
    r"|gsk_[A-Za-z0-9]{30,255}|xai-[A-Za-z0-9]{30,255}|r8_[A-Za-z0-9]{30,255}|pplx-[A-Za-z0-9]{30,255}"
    r"|nvapi-[A-Za-z0-9_\-]{30,255}|lin_api_[A-Za-z0-9]{30,255}|ntn_[A-Za-z0-9]{30,255}"
    r"|figd_[A-Za-z0-9_\-]{30,255}|hv[sbr]\.[A-Za-z0-9_\-]{20,512}|ATATT3[A-Za-z0-9_\-=]{30,512}"
    r"|tskey-[a-z]{3,12}-[A-Za-z0-9\-]{16,255}|gl(?:sa|c)_[A-Za-z0-9_]{30,255}|PMAK-[0-9a-f\-]{30,255}"
    r"|sq0(?:atp|csp)-[A-Za-z0-9_\-]{20,64}|sntr[ysu]{1,2}_[A-Za-z0-9+/=_\-]{30,512}"
    r"|dp\.(?:pt|st|ct)\.[A-Za-z0-9]{40,64}"
    r"|AGE-SECRET-KEY-1[A-Z0-9]{50,64}"
    r")"
)
# Providers of models use one prefix; the rest of it is free, so it must look like chance.
_SK: Final = re.compile(r"(?<![A-Za-z0-9_])sk-[A-Za-z0-9_\-]{16,255}")
_CHANCE: Final = re.compile(r"[A-Za-z0-9]{12,}")
_JWT: Final = re.compile(
    r"(?<![A-Za-z0-9_\-])eyJ[A-Za-z0-9_\-]{8,4096}\.[A-Za-z0-9_\-]{8,8192}\.[A-Za-z0-9_\-]{8,2048}"
)
_HELD: Final = re.compile(
    r"(?i)(?<![a-z0-9])(?:(?:authorization|authorisation) ?[:=] ?(?:basic|bearer|token) +|bearer +)"
    r"(?P<value>[A-Za-z0-9._~+/\-]{12,4096}=*)"
)
_COOKIE: Final = re.compile(
    "(?i)(?<![a-z0-9])(?:session(?:[_ -]?(?:id|token|key))?|sid|phpsessid|jsessionid"
    r"|connect\.sid|asp\.net_sessionid"
    r"|csrf[_-]?token|xsrf-token|remember[_-]token)[\"']? ?[:=] ?[\"']?(?P<value>[A-Za-z0-9%._~+/\-]{16,4096}="
    "*)"
)
_NAMED: Final = re.compile(
    r"(?i)(?<![a-z0-9])(?:[a-z0-9]{1,24}[_\-])?"
    "(?:api[_ -]?(?:key|token|secret)|apikey|access[_ -]?(?:key(?:[_ -]?id)?|token)"
    "|secret[_ -]?(?:access[_ -]?)?key"
    "|client[_ -]?secret|auth[_ -]?(?:key|token)|refresh[_ -]?token|(?:license|licence"
    "|encryption|signing|account)[_ -]?key"
    r"|webhook[_ -]?secret|secret|token|credentials?|(?P<bare>key)|(?:api[- ]?)?schl(?:ü|ue)ssel|zugangstoken"
    r"|clave(?: de)? (?:api|acceso)|cl(?:é|e)(?: d'| de l'| )api|jeton|密钥|令牌|مفتاح)"
    r"[\"']?(?: (?:is|ist|es|est))? ?(?:=>|[:=：]|(?<=is|es)|(?<=ist|est)|是|为) ?[\"'`]?"
    r"(?P<value>[A-Za-z0-9+/_.~\-]{16,512}=*)"
)
_URL_LOGIN: Final = re.compile(
    r"(?<![A-Za-z0-9+.\-])[A-Za-z][A-Za-z0-9+.\-]{1,15}://[^\s/:@]{0,64}:(?P<value>[^\s/@]{3,128})@"
)
_UUID: Final = re.compile(r"(?i)[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")
_OUR_ID: Final = re.compile(r"[a-z0-9]{20}")
"""Ids of keeps, those of sessions among them, are no secrets: they give nothing to who has no key."""
_HASH: Final = re.compile(r"[0-9a-f]+|[0-9A-F]+")
_PARTS: Final = re.compile(r"[\-_./~+]")
_CHANCE_CHARS: Final = 10
_CHANCE_BITS: Final = 3.0

_PEM: Final = re.compile(r"-----BEGIN [A-Z0-9 ]{0,32}PRIVATE KEY(?: BLOCK)?-----")
_PEM_END: Final = re.compile(r"-----END [A-Z0-9 ]{0,32}PRIVATE KEY(?: BLOCK)?-----")
_PEM_BODY: Final = re.compile(r"[A-Za-z0-9+/=\s:,\-]{0,65536}")
_PUTTY: Final = re.compile(r"PuTTY-User-Key-File-\d[^\0]{0,16384}")

_PASSWORD: Final = re.compile(
    r"(?i)(?<![^\W_])(?:pass(?:[-_ ]?word|wd|code|phrase| phrase)|pwd|pw|passwort|kennwort|contrase(?:ñ"
    "|n)a|clave|mot de passe|mdp"
    r"|senha|palavra-passe|wachtwoord|(?P<haslo>has[łl]o)|l(?:ö|o)senord|парол[ья]|密码|密碼|口令|パスワード|비밀번호"
    r"|كلمة (?:المرور|السر)|parola(?: d'ordine)?|şifre|pin(?:[ -]?(?:code|number|nummer))?)"
    r"(?P<whose>[\"']?(?: (?:for|of|to|on|at|in|für|fuer|von|zu|vom|zum|de|del|para|pour|du|le|la|do|da|van|voor"
    r"|di|per)(?: (?!(?:is|was|ist|war|es|est|to)\b)[^\s:=\[]{1,32}){1,3}){1,3}|[\"'])?"
    "(?P<sign> ?(?:=>|[:=：]) ?| (?:is|was|ist|war|lautet|es|era|est|était|è|é|jest"
    "|är) |(?(haslo) to |(?!))| ?(?:是|为|為|は|هي|هو) ?)"
    r"(?:now |set to |jetzt |ahora |:)?"
    r"(?P<value>\"[^\"\n]{4,128}\"|'[^'\n]{4,128}'|`[^`\n]{4,128}`|[^\s\"'`,;，。]{4,128})"
)
_SETS: Final = frozenset({"=>", ":", "=", "："})
_LOOKS_ON: Final = 16
"""So many characters behind a word say whether the sentence ends with it."""
_NO_PASSWORD: Final = frozenset(
    """
    required wrong weak strong expired compromised safe secure insecure missing empty short long simple complex changed
    stored saved kept managed protected hashed encrypted salted reset invalid incorrect correct optional needed never
    always also only still going being based reused shared known unknown forgotten lost none null true false with that
    what which this here there where more less used sent asked very quite rather something someone case-sensitive
    mandatory necessary different good great fine better hard easy important written hidden masked removed redacted
    falsch schwach stark abgelaufen sicher unsicher leer kurz lang geändert gespeichert nötig erforderlich nicht immer
    incorrecta débil segura insegura vacía corta larga obligatoria necesaria guardada muy demasiado importante única
    faible forte expiré expirée sûr vide court long obligatoire nécessaire enregistré trop incorrect oublié
    policy policies manager field reset rules shown displayed visible due handled chosen generated rotated synced
    """.split()
)
_PHRASE: Final = re.compile(r"[a-z]{3,12}(?: [a-z]{3,12}){3,7}(?= ?(?:[.\n]|$))")
"""A password of several words, behind a sign, that fills its line."""
_NO_PHRASE: Final = (_NO_PASSWORD - {"correct"}) | frozenset(
    """
    the and for was are with not but his her from into our its has had were been every after before must should can
    will may user users page form screen please enter your you they them who whose how why does don see ask use per
    und der die das mit nach vor alle jede jeden muss soll para con que los las cada pour les des avec chaque doit
    """.split()
)
_CALL: Final = re.compile(r"[A-Za-z_][\w.]*\(")
"""The beginning of a call in code, which says where a password comes from."""
_CODES: Final = re.compile(
    r"(?i)(?<![^\W_])(?:(?:recovery|backup|back-up|rescue|emergency|2fa|mfa|two-factor|scratch|one-time)"
    "(?: recovery| backup)? (?:codes?|keys?)|totp (?:secret|key|seed)|(?:wiederherstellungs"
    "|backup-?|notfall)(?:codes?|schlüssel)"
    r"|c(?:ó|o)digos? de (?:recuperaci(?:ó|o)n|respaldo|seguridad)"
    r"|codes? de (?:r(?:é|e)cup(?:é|e)ration|secours|sauvegarde)"
    r"|恢复码|恢复代码|备用代码|رمز(?:ال)? ?(?:الاسترداد|استرداد))"
    r"(?P<rest>[^\n]{0,40}?[:=：是] ?|(?: (?:is|are|ist|sind|es|son|est|sont|هو))? )"
)
_CODE: Final = re.compile(
    r"(?=[A-Za-z\-]{0,24}\d)[A-Za-z0-9]{4,8}"
    r"(?:-[A-Za-z0-9]{4,8}| (?=[A-Za-z]{0,7}\d)[A-Za-z0-9]{4,8}(?![A-Za-z0-9])){1,9}"
    r"|(?=[A-Za-z]{0,31}\d)[A-Za-z0-9]{6,32}(?![A-Za-z0-9])"
)
_OTP: Final = re.compile(r"otpauth://[^\s]{8,512}")
_SEED_CONTEXT: Final = re.compile(
    r"(?i)(?:seed|recovery|mnemonic|secret|wallet|backup|bip-?39)[ -](?:phrase|words?|seed)|mnemonic"
    r"|seed ?(?:phrase)?(?= ?[:=])"
    r"|frase (?:semilla|de recuperaci(?:ó|o)n)|phrase (?:de r(?:é|e)cup(?:é|e)ration|secr(?:è|e)te)"
    r"|wiederherstellungs(?:phrase|w(?:ö|o)rter)|助记词|metamask|ledger|trezor|عبارة الاسترداد"
)
_SEED: Final = re.compile(
    r"(?<![^\W_])(?:\d{1,2}[.)] ?)?[a-z]{3,8}(?:(?:,? |, ?|\n)(?:\d{1,2}[.)] ?)?[a-z]{3,8}){11,47}(?![^\W_])"
)
_SEED_WORD: Final = re.compile(r"[a-z]{3,8}")
_NO_SEED_WORDS: Final = frozenset(
    "the and for was are with not but his her from into our its has had were been".split()
)
_FEWEST_WORDS: Final = 12
_SEED_REACH: Final = 400
"""How far behind words about a wallet its phrase is looked for, in characters."""


def find_secrets(text: str) -> tuple[SecretFound, ...]:
    """The secrets of a text in order, none inside another; their spans are those of `text` as it was given."""
    whole = placed(text)
    found = {(name, *whole.span(start, end)) for name, start, end in _hits(whole.text)}
    latin = in_latin(whole.text)
    if latin != whole.text:  # letters of another alphabet imitate those of what is looked for
        found |= {(name, *whole.span(start, end)) for name, start, end in (*_named(latin), *_passwords(latin))}
    joined = unbroken(whole)
    if joined is not None:
        found |= {(name, *joined.span(start, end)) for name, start, end in _keys(joined.text)}
        found |= {(name, *joined.span(start, end)) for name, start, end in _pem(joined.text)}
    return _outermost(SecretFound(*hit) for hit in found)


def without_secrets(text: str) -> tuple[str, tuple[str, ...]]:
    """`text` with `[removed: <class>]` in place of each secret, and the classes found, each once, in order."""
    found = find_secrets(text)
    if not found:
        return text, ()
    parts: list[str] = []
    place = 0
    for secret in found:
        parts += text[place : secret.start], f"[removed: {secret.name}]"
        place = secret.end
    return "".join((*parts, text[place:])), tuple(dict.fromkeys(secret.name for secret in found))


def _outermost(found: Iterable[SecretFound]) -> tuple[SecretFound, ...]:
    """Where secrets overlap, one span over all of them, named after the one that begins first."""
    kept: list[SecretFound] = []
    for secret in sorted(found, key=lambda each: (each.start, -each.end, each.name)):
        if kept and secret.start < kept[-1].end:
            last = kept[-1]
            kept[-1] = SecretFound(last.name, last.start, max(last.end, secret.end))
        else:
            kept.append(secret)
    return tuple(kept)


def _hits(text: str) -> Iterator[_Hit]:
    yield from _keys(text)
    yield from _named(text)
    yield from _pem(text)
    yield from _passwords(text)
    yield from _codes(text)
    yield from _seed_phrases(text)
    yield from numbers(text)


def _keys(text: str) -> Iterator[_Hit]:
    """Keys and tokens by their own shape: these may be broken over lines."""
    for match in _ISSUED.finditer(text):
        yield API_KEY, match.start(), match.end()
    if "sk-" in text:
        for match in _SK.finditer(text):
            if any(_mixed(part) for part in _CHANCE.findall(match.group())):
                yield API_KEY, match.start(), match.end()
    if "eyJ" in text:
        for match in _JWT.finditer(text):
            yield SESSION_TOKEN, match.start(), match.end()


def _named(text: str) -> Iterator[_Hit]:
    """Keys and tokens by the word before them."""
    for match in _HELD.finditer(text):
        if _mixed(match["value"]):
            yield SESSION_TOKEN, *match.span("value")
    for match in _COOKIE.finditer(text):
        if _mixed(match["value"]) and not _OUR_ID.fullmatch(match["value"]):
            yield SESSION_TOKEN, *match.span("value")
    for match in _NAMED.finditer(text):
        # A key alone may be that of a row or a cache, and then it is a hash.
        if _by_chance(match["value"]) and not (match["bare"] and _HASH.fullmatch(match["value"])):
            yield API_KEY, *match.span("value")
    if "://" in text:
        for match in _URL_LOGIN.finditer(text):
            yield PASSWORD, *match.span("value")
        for match in _OTP.finditer(text):
            yield RECOVERY_CODE, match.start(), match.end()


def _mixed(value: str) -> bool:
    """True for letters and digits together."""
    return any(char.isdecimal() for char in value) and any(char.isalpha() for char in value)


def _by_chance(value: str) -> bool:
    """True for what nobody would write as a name: no path, no version, no UUID, but letters and digits in no order."""
    if not _mixed(value) or _UUID.fullmatch(value) or "://" in value or _bits(value) < _CHANCE_BITS:
        return False
    if any(len(part) >= _CHANCE_CHARS and _mixed(part) for part in _PARTS.split(value)):
        return True
    capitals = sum(map(str.isupper, value))
    return (
        len(value) >= 2 * _CHANCE_CHARS and capitals >= 3 and capitals + 3 <= len(value) and not value.startswith("/")
    )


def _bits(value: str) -> float:
    """Bits of surprise a character, by how often each occurs."""
    return -sum(count / len(value) * math.log2(count / len(value)) for count in Counter(value).values())


def _pem(text: str) -> Iterator[_Hit]:
    """Whole blocks of private keys; without an end, as far as they look like one."""
    if "-----BEGIN" in text:
        ends = [ended.end() for ended in _PEM_END.finditer(text)]
        place = 0
        while begun := _PEM.search(text, place):
            later = bisect_left(ends, begun.end())
            body = _PEM_BODY.match(text, begun.end())
            place = ends[later] if later < len(ends) else body.end() if body else begun.end()
            yield PRIVATE_KEY, begun.start(), place
    if "PuTTY-User" in text:
        for match in _PUTTY.finditer(text):
            yield PRIVATE_KEY, match.start(), match.end()


def _passwords(text: str) -> Iterator[_Hit]:
    for match in _PASSWORD.finditer(text):
        start, end = match.span("value")
        value = match["value"]
        phrase = _PHRASE.match(text, start) if match["sign"].strip() in _SETS else None
        if phrase and _NO_PHRASE.isdisjoint(phrase.group().split()):
            yield PASSWORD, *phrase.span()
            continue
        quoted = value[0] in "\"'`"
        bare = value[1:-1] if quoted else value.rstrip(".!?)。")
        if quoted:
            start, end = start + 1, end - 1
        else:
            end = start + len(bare)
        if _is_password(match, bare, text[end : end + _LOOKS_ON], quoted=quoted):
            yield PASSWORD, start, end


def _is_password(match: re.Match[str], value: str, rest: str, *, quoted: bool) -> bool:
    name = match.group().casefold()
    if (
        len(value) < 4
        or value.casefold() in _NO_PASSWORD
        or value.startswith(("[removed", "<", "${", "{{", "***", "..."))
        or not any(map(str.isalnum, value))
        or _CALL.match(value) is not None
    ):
        return False
    if name.startswith("pin"):
        return value.isdecimal() and len(value) <= 8
    if name.startswith("pw") and "/" in value:
        return False
    if quoted or any(not char.isalpha() for char in value.strip("-'")):
        return not value.casefold().startswith(("http://", "https://")) and value.count("-") < len(value)
    if any(char.isupper() for char in value[1:]) and not value.isupper():
        return True
    # A plain word is one only where the sentence ends with it: `is hunter` and not `is stored in …`.
    return rest.lstrip(" ")[:1] in ("", ".", "!", ",", ";", "\n", ")", "。") and value.islower()


def _codes(text: str) -> Iterator[_Hit]:
    place = 0
    for match in _CODES.finditer(text):
        if match.end() <= place:
            continue
        place = match.end()
        while found := _CODE.match(text, place):
            yield RECOVERY_CODE, found.start(), found.end()
            place = found.end()
            while place < len(text) and text[place] in ", ;\n/|":
                place += 1


def _seed_phrases(text: str) -> Iterator[_Hit]:
    end = 0
    for context in _SEED_CONTEXT.finditer(text):
        if context.start() < end:
            continue
        until = context.end() + _SEED_REACH
        for found in _SEED.finditer(text, context.end(), until):
            words = list(_SEED_WORD.finditer(text, *found.span()))
            # No phrase holds one of these words: it can only begin behind the last of them.
            common = [place for place, word in enumerate(words) if word.group() in _NO_SEED_WORDS]
            phrase = words[common[-1] + 1 :] if common else words
            if len(phrase) >= _FEWEST_WORDS:
                end = found.end()
                yield SEED_PHRASE, phrase[0].start(), end
                break
