import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from keeps.core import words


def plain(word: str) -> str:
    return word


def stem_s(word: str) -> str:
    return word.removesuffix("s")


def terms(text: str) -> list[str]:
    return list(words.bag(text, plain).counts)


def asked(text: str) -> list[str]:
    return words.question(text, plain)


def test_words_are_folded_and_counted() -> None:
    bag = words.bag("Tea, tea and GREEN tea!", plain)
    assert bag.counts == {"tea": 3, "and": 1, "green": 1}
    assert bag.length == 4  # "and" carries no meaning


def test_the_stemmer_is_used_on_meaning_words_only() -> None:
    assert words.question("does Mara like cats", stem_s) == ["mara", "like", "cat"]
    assert "doe" not in words.bag("does", stem_s).counts


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("getUserName", ["get", "user", "name", "getusername"]),
        ("HTTPServer", ["http", "server", "httpserver"]),
        ("user_name", ["user", "name", "username"]),
        ("__init__", ["init"]),
        ("gpt4", ["gpt", "4", "gpt4"]),
        ("v2.10", ["v", "2", "v2", "10"]),
        ("2024-05-08", ["2024", "05", "08"]),
        ("naïveBayes", ["naive", "bayes", "naivebayes"]),
        ("Mara's", ["mara"]),
        ("Mara’s", ["mara"]),
        ("don't", ["dont"]),
        ("O'Brien", ["o", "brien"]),
        ("l'eau", ["l", "eau"]),
        ("mara@example.org", ["mara", "example", "org"]),
        ("path/to/file.py", ["path", "to", "file", "py"]),
        ("co\u00adop\u200derate", ["cooperate"]),
    ],
)
def test_compound_words_give_their_parts_and_the_whole(text: str, expected: list[str]) -> None:
    assert terms(text) == expected


@pytest.mark.parametrize(
    ("stored", "question"),
    [
        ("café", "cafe"),
        ("cafe\u0301", "CAFÉ"),
        ("Ångström", "angstrom"),
        ("STRASSE", "straße"),
        ("ﬁne", "fine"),
        ("ｆｕｌｌ", "full"),
        ("Ἀθῆναι", "αθηναι"),
        ("ёлка", "елка"),
        ("İstanbul", "istanbul"),
    ],
)
def test_the_same_word_in_another_spelling_is_found(stored: str, question: str) -> None:
    assert set(asked(question)) <= set(terms(stored))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("हिन्दी", "हनद"),  # vowel signs are letters of the word
        ("काम", "कम"),
        ("мой", "мои"),
        ("が", "か"),
    ],
)
def test_marks_of_other_scripts_stay(one: str, other: str) -> None:
    assert terms(one) != terms(other)


def test_words_with_marks_are_not_broken_up() -> None:
    assert terms("हिन्दी भाषा") == ["हिन्द", "भाष"]  # one term a word, without its ending
    assert terms("مُدَرِّس") == ["مدرس"]
    assert terms("ქართული ენა") == ["ქართული", "ენა"]


@pytest.mark.parametrize("text", ["東京都", "こんにちは", "ภาษาไทย", "안녕하세요", "ភាសាខ្មែរ", "မြန်မာ", "ພາສາລາວ"])
def test_unspaced_scripts_are_found_by_any_piece(text: str) -> None:
    stored = set(terms(f"xx{text}yy"))
    for start in range(len(text)):
        for end in range(start + 1, len(text) + 1):
            piece = text[start:end]
            if end - start > 1 or piece.isalpha():
                assert set(asked(piece)) <= stored, piece


def test_pairs_are_asked_for_not_single_characters() -> None:
    assert asked("東京都") == ["東京", "京都"]
    assert asked("猫") == ["猫"]
    assert terms("東京tower") == ["東京", "東", "京", "tower"]


def test_words_without_meaning_are_dropped_unless_there_are_no_others() -> None:
    assert asked("What did they say about the boat?") == ["say", "boat"]
    assert asked("who are you") == ["who", "are", "you"]


def test_a_question_is_capped_in_order_of_appearance() -> None:
    text = " ".join(f"word{n}x" for n in range(5000))
    found = words.question(text, plain, limit=30)
    assert len(found) == 30
    assert found[:2] == ["word", "0"]


@pytest.mark.parametrize("text", ["", "   ", "🙂🎉", "\x00", "!?…", "\ud800", "\u200b\u200d", '"*(', "_'_'"])
def test_text_without_words_gives_nothing(text: str) -> None:
    assert words.bag(text, plain) == words.Bag({}, 0)
    assert asked(text) == []


def test_long_words_are_cut() -> None:
    assert all(len(term) <= words.MAX_TERM_CHARS for term in terms("a" * 5000 + " " + "é" * 5000 + "Bb" * 4000))


def test_name_words_keep_capitals_apart() -> None:
    assert words.name_words("Will O'Neil met Mara_K") == ["will", "o", "neil", "met", "mara", "k"]
    assert words.capitalised_words("Will O'Neil met Mara_K") == [True, True, True, False, True, True]


any_text = st.text(st.characters(exclude_categories=()), max_size=60)


@given(any_text)
@example("ͺͺ")
@example("ﷺ ½ ⑳ ㍿")
def test_terms_hold_letters_marks_and_digits_only(text: str) -> None:
    for term in terms(text):
        assert term
        assert len(term) <= words.MAX_TERM_CHARS
        assert not set(term) & set(" :\"'_\t\n\x00\ue000\ue001")
        term.encode()


@given(any_text)
def test_a_text_is_found_by_itself(text: str) -> None:
    assert set(asked(text)) <= set(terms(text))


@given(any_text)
def test_folding_twice_changes_nothing_more(text: str) -> None:
    assert words.fold(words.fold(text)) == words.fold(text)


@given(st.lists(st.sampled_from(["tea", "Mara", "東京", "the", "userName"]), max_size=8))
def test_words_apart_count_as_words_together(parts: list[str]) -> None:
    whole = words.bag(" ".join(parts), plain)
    assert whole.length == sum(words.bag(part, plain).length for part in parts)


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("Mara: the boat is late", ["mara"]),
        ("Mara Quill: the boat", ["mara", "quill"]),
        ("  Ana-Luíza: hm", ["ana", "luiza"]),
        ("the boat is late", []),
        ("what we need for the long trip: tea", []),
        ("12:30 is fine", []),
        ("User: what is my user name?", []),
        ("https://example.org", []),
        ("", []),
    ],
)
def test_who_speaks_is_the_name_in_front(text: str, terms: list[str]) -> None:
    assert words.speaker_terms(text, plain) == [words.SAID + term for term in terms]


@pytest.mark.parametrize("text", ["Is it late?", "晚了吗？", "هل تأخرت؟", "Really?! Yes."])
def test_a_question_in_a_text_is_seen(text: str) -> None:
    assert words.asks(text)


@pytest.mark.parametrize("text", ["It is late.", "see https://example.org/?q=tea", ""])
def test_what_only_tells_asks_nothing(text: str) -> None:
    assert not words.asks(text)
