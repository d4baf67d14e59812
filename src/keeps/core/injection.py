"""Words meant for the machine and not for the person: how much a text looks like them, and by which rules.

Rules know English, Spanish, German, French, Arabic and Chinese, and of Italian, Portuguese, Polish, Russian, Japanese
and Korean the order to ignore what was said before. They catch the clumsy cases; what keeps a text from
doing harm is that nothing unconfirmed reaches a prompt, and that text cannot leave its fence.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from keeps.core.folding import ARABIC, as_latin, in_latin, is_mixed, placed, plain_words
from keeps.core.orders import (
    ACTIONS,
    AUTHORITY,
    BLOB,
    CONTACT,
    FENCE,
    HIDDEN,
    MIXED,
    RECOMMENDS,
    ROLES,
    SECRECY,
    SENDS,
    SKIPS,
    SPEAKS,
    TRIGGER,
    UNKNOWN,
)
from keeps.core.orders_english import ENGLISH
from keeps.core.orders_european import EUROPEAN
from keeps.core.orders_unspaced import UNSPACED


@dataclass(frozen=True, slots=True)
class Judged:
    """A score 0..1, the rules that made it, and the flags of the row."""

    score: float
    reasons: tuple[str, ...]
    flags: frozenset[str]


_BEFORE: Final = (
    r"(?:^|[.!?;:,\n] ?|(?:^| )[\-*] |\b(?:and|then|please|first|always|immediately|also|now|must"
    "|should|y|luego|primero|siempre|por favor"
    r"|und|dann|bitte|zuerst|immer|sofort|et|puis|ensuite|d'abord|toujours|veuillez) )"
)
# A verb before a colon names what follows: `Email: mara@example.org`.
_ORDER: Final = re.compile(rf"{_BEFORE}(?:{ACTIONS})\b(?! ?[:=]| (?:is|address|addresses|account)\b)")
_ORDER_UNSPACED: Final = re.compile(
    "发送|转发|打开|访问|点击|下载|上传|转账|汇款|支付|购买|安装|执行|联系|发到|發送|轉發|打開|訪問|點擊|轉賬"
    "|(?:^|[\\s.،؛:])(?:و|ثم |ف)?(?:ارسل|ارسلي|افتح|زر|انقر|اضغط|حمل|حول|ادفع|اشتر|نفذ|اتصل|شارك|انسخ|قم ب)"
)
_RULES: Final = tuple(
    (reason, weight, frozenset(words.split()), re.compile(pattern))
    for reason, weight, words, pattern in (*ENGLISH, *EUROPEAN)
)

_UNSPACED: Final = tuple(
    (reason, weight, re.compile(unicodedata.normalize("NFKD", pattern.translate(ARABIC))))
    for reason, weight, pattern in UNSPACED
)
_ARABIC: Final = re.compile("[\u0600-\u06ff]")
_HAN: Final = re.compile("[\u3400-\u9fff]")
_OTHER_UNSPACED: Final = re.compile("[\u0600-\u06ff\u3400-\u9fff\u3040-\u30ff\u1100-\u11ff]")

_WORD: Final = re.compile(r"[^\W_]+(?:['\-][^\W_]+)*")

_ROLE: Final = re.compile(
    r"(?i)<\|/?[a-z][\w ]{0,40}\|>|\[/?INST\]|<</?SYS>>|</?(?:system|assistant|user|developer"
    r"|tool|instructions?|prompt)\b[^<>\n]{0,80}>"
    r"|<(?:start|end)_of_turn>|(?:^|\n)[ \t#*>]{0,8}(?:system|developer)(?: (?:message"
    "|prompt|instructions?))?[ *]{0,3}:"
    r"|(?:^|\n)#{2,6} ?(?:system|instructions?|assistant|human|user)\b|(?:^|\n)\[?(?:system"
    r"|assistant)\]?[ ]?[>\]]"
    r"|(?:^|\n)(?:human|assistant) ?:[^\n]{0,400}\n+(?:human|assistant) ?:|\{\{#?(?:system"
    r"|user|assistant)[^{}\n]{0,40}\}\}"
    r"|\"role\" ?: ?\"(?:system|assistant|developer)\""
)
_FENCE: Final = re.compile(
    r"(?i)</?(?:\w{1,24}[ \-_])?(?:memory|memories|notes?|context|untrusted|data|document"
    "|search_results?|tool_result)"
    r"(?:-[\w\-]{0,40})?(?: [^<>\n]{0,80})?>|(?:^|\n)[\-=#* ]{2,12}(?:end|begin|start) of (?:the )?(?:memory"
    "|memories|notes?|context|data"
    r"|user (?:input|data)|document|system)\b|\bend of (?:memory|memories|untrusted"
    r"|user) (?:block|section|data|context|input)\b"
)
_RUN: Final = re.compile(r"[A-Za-z0-9+/_\-]{24,}={0,2}(?:\s[A-Za-z0-9+/_\-]{24,}={0,2}){0,4096}")
_HEX: Final = re.compile(r"[0-9A-Fa-f]+")
_MOST_HEX: Final = 64
_URL: Final = re.compile(
    r"(?i)\b(?:https?|ftp|wss?)://\S|\bhxxps?://|\bwww\.[a-z0-9\-]|"
    r"(?<![\w@.])(?:[a-z0-9\-]{1,63}\.){1,4}(?:com|net|org|io|dev|app|ai|co|info|biz"
    r"|xyz|top|ru|cn|de|fr|es|uk|eu|example|test|ly|gg)(?:/\S|\b(?![\w.]))"
)
_EMAIL: Final = re.compile(r"[\w.+\-]{1,64}@[\w\-]{1,63}(?:\.[\w\-]{1,63}){1,5}")
_BARE_EMAIL: Final = re.compile(
    r"(?im)^(?:my |her |his |the )?(?:e-?mail|mail)(?: address)? ?[:=]? ?[\w.+\-]{1,64}@[\w.\-]{1,253}[.,;]?$"
)
"""A line that says what somebody's address is, and orders nothing."""
_WALLET: Final = re.compile(
    r"\b0x[0-9a-fA-F]{40}\b|\bbc1[a-z0-9]{25,62}\b|\b[13][1-9A-HJ-NP-Za-km-z]{25,34}\b"
    r"|\b[LM][1-9A-HJ-NP-Za-km-z]{26,33}\b"
    r"|\bT[1-9A-HJ-NP-Za-km-z]{33}\b"
)
_PHONE: Final = re.compile(r"(?<![\w.])\+?\d[\d ().\-/]{6,20}\d(?![\w])")

_LETTERS: Final = re.compile(r"[^\W\d_]+")
_STOPWORDS: Final = frozenset(
    """
    the and is are of to in for on with my i you it this that at from was be have has not an a as by or
    el la los las de que y en un una es por con para mi tu su no se del al lo como
    der die das und ist ein eine zu mit auf fur mein meine ich du nicht im den dem von wenn sie bei
    le les des et est une pour avec mon ma je tu vous pas dans du au sur ce que qui sont
    """.split()
)
_FEW_WORDS: Final = 3


def judge(text: str, *, hidden: bool = False) -> Judged:
    """How much `text` looks like words to the machine. `hidden`: cleaning took characters out of it."""
    return judge_plain(text, plain_words(text), hidden=hidden)


def judge_plain(text: str, plain: str, *, hidden: bool = False) -> Judged:
    """The same, when the form of `plain_words` is at hand."""
    found: dict[str, float] = {}
    for reason, weight in _found(text, plain):
        found[reason] = max(found.get(reason, 0.0), weight)
    url = _URL.search(text) is not None
    if url and UNKNOWN not in found and _is_unknown(plain):
        found[UNKNOWN] = 0.3
    if hidden:
        found[HIDDEN] = 0.25
    words = {SPEAKS, TRIGGER, SECRECY, AUTHORITY, RECOMMENDS, SENDS, SKIPS, ROLES, FENCE, CONTACT}
    flags = {
        "instruction_like": bool(words & found.keys()),
        "has_url": url,
        "hidden_chars": hidden,
        "mixed_script": MIXED in found,
        "blob": BLOB in found,
    }
    return Judged(
        min(1.0, round(sum(found.values(), 0.0), 2)),
        tuple(sorted(found)),
        frozenset(flag for flag, holds in flags.items() if holds),
    )


def _found(text: str, plain: str) -> Iterator[tuple[str, float]]:
    yield from _by_rules(plain)
    whole = text if text.isascii() else placed(text).text
    if any(sign in whole for sign in "<[:#{") and _ROLE.search(whole):
        yield ROLES, 0.6
    if ("<" in whole or "end of" in plain or "begin of" in plain or "start of" in plain) and _FENCE.search(whole):
        yield FENCE, 0.6
    if _has_blob(whole):
        yield BLOB, 0.5
    if not text.isascii():
        yield from _mixed(whole)
    yield from _contact(whole, plain)


def _by_rules(plain: str) -> Iterator[tuple[str, float]]:
    words = set(_WORD.findall(plain))
    for reason, weight, anchors, pattern in _RULES:
        if not anchors.isdisjoint(words) and pattern.search(plain):
            yield reason, weight
    if not plain.isascii() and _OTHER_UNSPACED.search(plain):
        for reason, weight, pattern in _UNSPACED:
            if pattern.search(plain):
                yield reason, weight


def _mixed(whole: str) -> Iterator[tuple[str, float]]:
    """Words of two scripts; where one imitates the other, what they say when all is Latin."""
    mixed = [word for word in _LETTERS.findall(whole) if not word.isascii() and is_mixed(word)]
    if not mixed:
        return
    imitated = any(len(word) >= 4 and as_latin(word).isascii() for word in mixed)
    yield MIXED, 0.5 if imitated else 0.3
    if imitated:
        yield from _by_rules(plain_words(in_latin(whole)))


def _contact(whole: str, plain: str) -> Iterator[tuple[str, float]]:
    """A place to send something to, together with an order."""
    if "@" in whole:
        said = _BARE_EMAIL.sub("", whole)
        if said != whole:
            whole, plain = said, plain_words(said)
    if not (_ORDER.search(plain) or (not plain.isascii() and _ORDER_UNSPACED.search(plain))):
        return
    if _URL.search(whole) or ("@" in whole and _EMAIL.search(whole)) or _WALLET.search(whole):
        yield CONTACT, 0.5
    elif _PHONE.search(whole):
        yield CONTACT, 0.3


def _has_blob(whole: str) -> bool:
    """True for a run of more than 64 characters that is base64 or hexadecimal, over several lines too."""
    for match in _RUN.finditer(whole):
        run = re.sub(r"\s", "", match.group())
        if len(run) <= _MOST_HEX:
            continue
        if _HEX.fullmatch(run) and any(map(str.isdecimal, run)):
            return True
        kinds = any(map(str.isdecimal, run)), any(map(str.isupper, run)), any(map(str.islower, run))
        signs = sum(map(run.count, "+/_-"))
        if all(kinds) and signs * 12 <= len(run):
            return True
    return False


def _is_unknown(plain: str) -> bool:
    """True when no language of the rules can be made out: another script, or none of their small words."""
    letters = _LETTERS.findall(_URL.sub(" ", plain))
    if len(letters) < _FEW_WORDS and not any(len(word) > 8 and not word.isascii() for word in letters):
        return False
    if any(word in _STOPWORDS for word in letters):
        return False
    joined = "".join(letters)
    kana = any("\u3040" <= char <= "\u30ff" for char in joined)
    return kana or not (_ARABIC.search(joined) or _HAN.search(joined))
