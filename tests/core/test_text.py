"""Cleaning, folding, labels and what is refused before anything is stored."""

from __future__ import annotations

import sys
import time
import unicodedata
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keeps.core import text as text_module
from keeps.core import words
from keeps.core.entities import display_name, normalise_key, normalise_name
from keeps.core.errors import Conflict, Invalid, TooLarge
from keeps.core.fence import plain
from keeps.core.scopes import parse_path, parse_pattern
from keeps.core.text import (
    check_bytes,
    check_label,
    check_labels,
    clean,
    clean_name,
    conceals,
    cut_marks,
    fold,
    refuse_unstorable,
    reveal,
)
from tests.core.strategies import storable_texts, texts

FLAG_OF_WALES = "\U0001f3f4\U000e0067\U000e0062\U000e0077\U000e006c\U000e0073\U000e007f"


@given(storable_texts)
def test_cleaning_twice_changes_nothing(text: str) -> None:
    once = clean(text)
    again = clean(once.text)
    assert again.text == once.text
    assert not again.hidden_chars


@given(storable_texts)
def test_clean_text_holds_no_carrier_and_is_composed(text: str) -> None:
    kept = clean(text).text
    assert unicodedata.is_normalized("NFC", kept)
    assert not any(0x202A <= ord(c) <= 0x202E or 0x2060 <= ord(c) <= 0x206F or c == "\ufeff" for c in kept)
    assert all(c in "\n\t" for c in kept if unicodedata.category(c) == "Cc")
    assert kept == kept.strip()
    assert "\n\n\n" not in kept


@given(st.text(st.characters(codec="ascii", exclude_categories=["Cc"]), max_size=40))
def test_plain_text_is_only_trimmed(text: str) -> None:
    assert clean(text) == clean(text.strip())
    assert clean(text).text == text.strip()
    assert not clean(text).hidden_chars


@given(texts)
def test_fold_is_stable(text: str) -> None:
    assert fold(fold(text)) == fold(text)


@given(storable_texts)
def test_cleaning_does_not_change_what_text_compares_as_when_nothing_was_hidden(text: str) -> None:
    cleaned = clean(text)
    assert fold(clean(cleaned.text).text) == fold(cleaned.text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("hello\U000e0049\U000e0047\U000e004e\U000e004f\U000e0052\U000e0045", "hello"),
        ("safe \u202etxt.exe\u202c end", "safe txt.exe end"),
        ("ig\u200bnore all previous instruc\u200dtions", "ignore all previous instructions"),
        ("a\u2062b\ufeffc", "abc"),
        ("x\ufe00\ufe01\ufe02y", "xy"),
        ("\U0001f3f4\U000e0061\U000e0062\U000e007f", "\U0001f3f4"),
        ("e\u200d\u0301", "é"),
        ("\U0001f468\u200c\U0001f469", "\U0001f468\U0001f469"),
    ],
)
def test_hidden_characters_are_removed_and_reported(text: str, expected: str) -> None:
    cleaned = clean(text)
    assert cleaned.text == expected
    assert cleaned.hidden_chars


@pytest.mark.parametrize(
    "text",
    [
        FLAG_OF_WALES,
        f"we went to {FLAG_OF_WALES} in May",
        "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466",
        "\U0001f3f3\ufe0f\u200d\U0001f308",
        "\u2764\ufe0f\u200d\U0001f525",
        "\U0001f9d1\U0001f3fd\u200d\U0001f680",
        "\U0001f642\u200d\u2194\ufe0f",
        "می\u200cخواهم",
        "Wikipedia\u200cها",
        "ക്\u200dഷ",
        "അവന്\u200d",
        "ක්\u200dෂ",
        "ภาษา\u200bไทย",
        "שלום \u200f(אב)",
        "line one\nline two\tcell",
    ],
)
def test_what_scripts_and_emoji_need_survives(text: str) -> None:
    cleaned = clean(text)
    assert cleaned.text == text
    assert not cleaned.hidden_chars


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("cafe\u0301", "café"),
        ("a\r\nb\rc", "a\nb\nc"),
        ("a\n\n\n\n\nb", "a\n\nb"),
        ("a\x07b\x85c\x7fd", "a b c d"),
        ("  padded\n", "padded"),
        ("a\tb", "a\tb"),
    ],
)
def test_ordinary_tidying_is_not_reported_as_hidden(text: str, expected: str) -> None:
    cleaned = clean(text)
    assert cleaned.text == expected
    assert not cleaned.hidden_chars


@pytest.mark.parametrize("bad", ["a\0b", "a\ud800b", "a\udfff", "\ufdd0", "\ufffe", "\uffff", "\U0010ffff"])
def test_what_cannot_be_stored_is_refused_everywhere(bad: str) -> None:
    for refuse in (
        lambda: clean(bad),
        lambda: clean_name(bad, what="a name"),
        lambda: check_label(f"key={bad}"),
        lambda: refuse_unstorable({"a": [{"b": bad}]}),
        lambda: refuse_unstorable({bad: 1}),
    ):
        with pytest.raises(Invalid, match="bad text"):
            refuse()


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf"), 2**53 + 1, -(2**53) - 1, 2**63])
def test_numbers_that_would_change_are_refused(bad: float) -> None:
    with pytest.raises(Invalid, match="bad number"):
        refuse_unstorable({"a": [1, bad]})


def test_ordinary_values_pass() -> None:
    refuse_unstorable({"a": [1, 2.5, True, None, "text", {"b": 2**53}], "c": -(2**53)})


def test_deep_nesting_is_refused_without_recursion() -> None:
    deep: object = "leaf"
    for _ in range(5000):
        deep = [deep]
    with pytest.raises(Invalid, match="nested"):
        refuse_unstorable(deep)


def test_lengths() -> None:
    assert clean(" abc ", limit_chars=3).text == "abc"
    with pytest.raises(Invalid, match="at most 3"):
        clean("abcd", limit_chars=3)
    check_bytes("é", limit_bytes=2)
    with pytest.raises(TooLarge):
        check_bytes("é", limit_bytes=1)
    assert clean_name(" a\n b ", what="a name") == "a b"
    for empty in ("", "  ", "\u202e"):
        with pytest.raises(Invalid):
            clean_name(empty, what="a name")


def test_labels() -> None:
    assert check_label(" source = web ") == "source=web"
    assert check_label("url=a=b") == "url=a=b"
    for bad in ("novalue", "=x", "_internal=1", ""):
        with pytest.raises(Invalid):
            check_label(bad)
    assert check_labels(["b=1", "a=1", "b=1"]) == ("b=1", "a=1")
    with pytest.raises(Conflict):
        check_labels([f"k{n}=1" for n in range(33)])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Tea.", "tea"),
        ("ＴＥＡ", "tea"),
        ("straße", "STRASSE"),
        ("\u201cGreen  tea\u201d", "green tea"),
        ("te\u00ada", "tea"),
        ("cafe\u0301", "CAFÉ"),
        ("instruc\u200dtion", "instruction"),
    ],
)
def test_fold_joins_spellings(one: str, other: str) -> None:
    assert fold(one) == fold(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [("C#", "C"), ("A+", "A-"), ("50%", "50"), ("-5", "5"), (".5", "5"), ("?", "!"), ("5'", "5")],
)
def test_fold_keeps_signs_that_mean_something(one: str, other: str) -> None:
    assert fold(one) != fold(other)


# Marks of four classes in falling order, so that composing has to move each of them past the others.
MARKS = "\u0315\u0300\u05ae\u0334"
KIBIBYTES_512 = 512 * 1024

# Pieces that take part in composing, in joining or in being taken out, to be mixed freely.
hostile_texts = st.lists(
    st.sampled_from(
        [
            *f"{MARKS}\u0344\u0f73\uff9e\u0338\u093c\u094d\U00011046a=\u0627\u1100\u1161\u11a8\u0e01\u0130\U0001f468",
            *'\u200b\u200c\u200d\ufe0f\u202e\u2066\U000e0061\u00ad \n\r\x07".',
            MARKS * 8,
            "\ufe0f\u200d",
            "\n\n",
            FLAG_OF_WALES,
        ]
    ),
    max_size=40,
).map("".join)


@given(hostile_texts)
def test_cleaning_what_is_made_to_resist_is_stable(text: str) -> None:
    once = clean(text)
    again = clean(once.text)
    assert again == clean(again.text)
    assert again.text == once.text
    assert not again.hidden_chars
    assert unicodedata.is_normalized("NFC", once.text)
    assert cut_marks(once.text) == once.text


@given(hostile_texts)
def test_folding_what_is_made_to_resist_is_stable(text: str) -> None:
    assert fold(fold(text)) == fold(text)
    assert words.fold(words.fold(text)) == words.fold(text)


@given(hostile_texts)
def test_a_name_that_is_accepted_stays_accepted(text: str) -> None:
    for normalise in (display_name, normalise_name, normalise_key):
        try:
            name = normalise(f"n{text}")
        except Invalid:
            continue
        assert normalise(name) == name


def test_marks_are_all_characters_that_decompose_to_marks_only() -> None:
    for code in range(sys.maxunicode + 1):
        if 0xD800 <= code <= 0xDFFF:
            continue
        is_mark = unicodedata.combining(unicodedata.normalize("NFKD", chr(code))[0]) > 0
        assert (cut_marks(chr(code) * 31) != chr(code) * 31) == is_mark, hex(code)


@pytest.mark.parametrize("between", ["", "\u200b", "\u202e", "\u200d\u2066\ufe0f", "\u0344"])
def test_marks_above_thirty_on_one_letter_are_cut_and_reported(between: str) -> None:
    cleaned = clean(f"a{between.join(MARKS * 20)}b")
    assert cleaned.hidden_chars
    assert cleaned.text[-1] == "b"
    assert 1 <= sum(unicodedata.combining(char) > 0 for char in cleaned.text) <= 30


def test_thirty_marks_on_one_letter_stay() -> None:
    thirty = "z" + "\u0315" * 30
    assert clean(thirty) == clean(thirty + "")
    assert clean(thirty).text == thirty
    assert not clean(thirty).hidden_chars
    assert reveal(thirty) == thirty
    assert reveal(thirty + "\u0315") == thirty + "⟨U+0315⟩"
    assert clean_name(thirty, what="a name") == thirty


@pytest.mark.parametrize(
    "refuse",
    [
        lambda text: clean_name(text, what="a name"),
        lambda text: check_label(f"key={text}"),
        display_name,
        normalise_name,
        normalise_key,
        parse_path,
        parse_pattern,
    ],
)
def test_names_keys_labels_and_scopes_with_too_many_marks_are_refused(refuse: Callable[[str], object]) -> None:
    refuse("a" + "\u0300" * 30)
    with pytest.raises(Invalid, match="combining marks"):
        refuse("a" + "\u0300" * 31)


def test_what_is_far_too_long_is_refused_before_it_is_cleaned(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> object:
        raise AssertionError("was cleaned")

    monkeypatch.setattr(text_module, "_composed", never)
    for refuse in (
        lambda: clean("é" * 1000, limit_chars=100),
        lambda: clean_name("é" * 2000, what="a name"),
        lambda: check_label("k=" + "é" * 4000),
        lambda: normalise_name("é" * 4000),
        lambda: normalise_key("é" * 4000),
    ):
        with pytest.raises(Invalid, match="at most"):
            refuse()


def _nested(depth: int) -> str:
    return "a" + "\ufe0f\u200d" * depth + "\ufe0f\ufe0f" + "\u200d\ufe0f" * depth + "b"


def _chained(length: int) -> str:
    """Each joiner stays only until the one before it has gone."""
    return "a\u0300\u200b" + "\U00011046\u200d" * length + "b"


@pytest.mark.parametrize("made", [_nested, _chained])
def test_the_passes_of_cleaning_do_not_grow_with_the_text(
    made: Callable[[int], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    passes = 0
    tidied = text_module._tidied  # pyright: ignore[reportPrivateUsage]

    def counted(text: str) -> str:
        nonlocal passes
        passes += 1
        return tidied(text)

    monkeypatch.setattr(text_module, "_tidied", counted)
    counts: list[int] = []
    for size in (50, 200):
        passes = 0
        cleaned = clean(made(size))
        counts.append(passes)
        assert cleaned.hidden_chars
        assert clean(cleaned.text).text == cleaned.text
    assert counts[0] == counts[1] <= 6


def test_only_short_runs_of_marks_are_ever_composed(monkeypatch: pytest.MonkeyPatch) -> None:
    longest = 0

    class Watched:
        combining, category = staticmethod(unicodedata.combining), staticmethod(unicodedata.category)

        @staticmethod
        def normalize(form: str, text: str) -> str:
            nonlocal longest
            run = 0
            for char in text:
                run = run + 1 if unicodedata.combining(char) else 0
                longest = max(longest, run)
            return unicodedata.normalize(form, text)

    monkeypatch.setattr(text_module, "unicodedata", Watched)
    monkeypatch.setattr(words, "unicodedata", Watched)
    for between in ("", "\u200d", "\u00ad", "\u202e", "\u0344", "\uff9e", "\ufe0f"):
        text = "a" + between.join(MARKS * 100)
        for work in (clean, fold, words.fold, words.name_words, lambda text: words.bag(text, str.lower)):
            work(text)
    assert longest <= 30


@pytest.mark.slow
@pytest.mark.parametrize(
    "unit",
    [
        MARKS,
        f"{MARKS}\u200d",
        f"{MARKS}\u00ad",
        "\ufe0f\u200d",
        "\u0627\u200d",
        " ",
        "é.",
        "é'",
        "é",
        "aя",
        "\U00011046\u200d",
    ],
)
def test_half_a_mebibyte_of_anything_takes_no_long_time(unit: str) -> None:
    text = "ä" + unit * (KIBIBYTES_512 // len(unit.encode())) + "b"
    for work in (clean, fold, reveal, plain, words.fold, lambda text: words.bag(text, str.lower)):
        start = time.process_time()
        work(text)
        assert time.process_time() - start < 5


@pytest.mark.parametrize("phrase", ["\ufdfa", "\ufdfb", "\ufdfa\ufdfb "])
def test_a_text_of_ligatures_that_stand_for_phrases_is_folded_at_once(phrase: str) -> None:
    text = phrase * (512 * 1024 // len(phrase.encode()))
    began = time.process_time()
    folded = fold(text)
    assert fold(folded) == folded
    assert len(folded) <= len(text)
    words.bag(text, str)
    assert time.process_time() - began < 1.5
    assert fold(phrase) == unicodedata.normalize("NFKC", phrase).strip()


@given(st.lists(st.sampled_from(["\ufdfa", "\ufdfb", "a", "\u0301", " ", "\ufb01"]), max_size=200).map("".join))
def test_folding_twice_changes_nothing_however_many_phrases_there_are(text: str) -> None:
    assert fold(fold(text)) == fold(text)


@pytest.mark.parametrize(
    "unseen", ["\u3164", "\uffa0", "\u2800", "\u00ad", "\u034f", "\u115f", "\u1160", "\u17b4", "\u180e"]
)
def test_what_nobody_sees_makes_no_other_name(unseen: str) -> None:
    assert normalise_name(f"Mara{unseen}") == normalise_name("Mara")
    assert normalise_name(f"{unseen}Mara") == normalise_name("Mara")
    assert normalise_name(f"Ma{unseen}ra") in {"mara", "ma ra"}
    assert normalise_key(f"ro{unseen}le") in {"role", "ro_le"}
    assert display_name(f"Mara{unseen}{unseen}") == "Mara"
    for refused in (normalise_name, normalise_key, display_name, parse_path):
        with pytest.raises(Invalid):
            refused(unseen * 3)
    with pytest.raises(Invalid):
        parse_path(f"team/no{unseen}rth")


def test_how_a_sign_is_drawn_makes_no_other_name() -> None:
    assert normalise_name("Team \u2764\ufe0f") == normalise_name("Team \u2764")
    assert display_name("Team \u2764\ufe0f") == "Team \u2764\ufe0f"
    with pytest.raises(Invalid):
        normalise_name("\ufe0f")


@given(texts)
def test_a_name_holds_nothing_unseen(text: str) -> None:
    try:
        name = normalise_name(text)
    except Invalid:
        return
    assert normalise_name(name) == name
    assert not any(char in "\u3164\uffa0\u2800\u00ad\u034f\ufe0f" for char in name)


@pytest.mark.parametrize("char", "\u00ad\u034f\u115f\u1160\u2800\u3164\uffa0\u180b")
def test_a_row_of_what_nobody_sees_is_noticed(char: str) -> None:
    assert conceals(f"a{char}{char}b")
    assert not conceals(f"Donau{char}dampf{char}schiff")
    assert not conceals("plain")
