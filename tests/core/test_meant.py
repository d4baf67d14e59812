"""A phrase means a text when it says the same, word by word; all that could be another statement is refused."""

from __future__ import annotations

import time

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from keeps.core.meant import Said, asked_by, same, torn


def means(phrase: str, text: str) -> bool:
    return same(asked_by(phrase), Said.of(text))


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ("the spare keys hang behind the oven", "The spare key hangs behind the oven"),
        ("spare key hangs behind oven", "The spare key hangs behind the oven."),
        ("I'm allergic to peanuts", "I am allergic to peanuts"),
        ("im allergic to peanuts!", "“I’m allergic to peanuts.”"),
        ("I don't eat fish", "I do not eat fish"),
        ("I dont eat fish", "I don't eat fish"),
        ("I can't eat fish", "I cannot eat fish"),
        ("she's a harbour pilot", "She is a harbour pilot"),
        ("Mara is a pilot on boats", "Mara is a pilot on the boats"),
        ("Tom has two cats and they are old", "Tom has 2 cats and they are old"),
        ("forget that Tom has two cats", "Tom has two cats"),
        ("please forget that I live in Lisbon", "I live in Lisbon"),
        ("Forget: I live in Lisbon", "I live in Lisbon"),
        ("forget about my flight to Lisbon", "My flight to Lisbon"),
        ("forget the fact that I live in Lisbon", "I live in Lisbon"),
        ("the fact that I live in Lisbon", "I live in Lisbon"),
        ("delete the memory that I live in Lisbon", "I live in Lisbon"),
        ("that Mara is allergic to peanuts", "Mara is allergic to peanuts"),
        ("please remove the note about the alarm code of the office", "Alarm code of the office"),
        ("MY BROTHER OWES ANNA 20 EUROS", "my brother owes Anna 20 euros"),
        ("j'aime le fromage de chèvre", "J'aime le fromage de chèvre."),
    ],
)
def test_the_same_in_other_forms_is_meant(asked: str, text: str) -> None:
    assert means(asked, text)


OTHERS = [
    ("I love peanuts.", "I hate peanuts."),
    ("I like peanuts.", "I avoid peanuts."),
    ("I eat meat.", "I refuse to eat meat."),
    ("My brother lent my sister 50 euros.", "My sister lent my brother 50 euros."),
    ("My wife lent my brother 50 euros", "My sister lent my brother 50 euros."),
    ("My brother owes 50 euros", "My sister lent my brother 50 euros."),
    ("The dog chased the cat.", "The cat chased the dog."),
    ("ben owes anna 20 euros", "anna owes ben 20 euros"),
    ("I drink coffee in the morning.", "I hardly ever drink coffee in the morning."),
    (
        "The wifi password of the office is heron.",
        "The wifi password of the office is heron and the alarm code of the office is kestrel.",
    ),
    ("penicillin", "I am allergic to penicillin."),
    ("The spare key is under the mat", "My brother keeps the spare key under the mat."),
    ("The spare key is under the mat", "My sister keeps the spare key under the mat."),
    ("I bought the house in the old town.", "I almost bought the house in the old town."),
    ("I must take the pills every day", "The doctor says I must take the pills every day before bed."),
    ("J'aime le fromage de chèvre.", "Je n'aime pas le fromage de chèvre."),
    ("Ich mag Käse aus Ziegenmilch.", "Ich mag keinen Käse aus Ziegenmilch."),
    ("puedo comer queso de cabra", "No puedo comer queso de cabra."),
    ("The meeting with the bank is happening", "The meeting with the bank is unlikely to happen."),
    ("the offer for the boat", "We rejected the offer for the boat."),
    ("My driving test", "I failed my driving test."),
    ("we cancel the garden party", "If it rains we cancel the garden party."),
    ("Don't use the old server for backups", "Use the old server for backups."),
    ("Deploy is allowed on Fridays", "Deploy is forbidden on Fridays."),
    ("I like the smell of coffee", "I dislike the smell of coffee."),
    ("My flight to Lisbon", "My flight to Lisbon was cancelled."),
    ("I am a fan of jazz", "I am no fan of jazz."),
    ("He is at home on Sundays", "He is rarely at home on Sundays."),
    ("The test results for diabetes were positive", "The test results were negative for diabetes."),
    ("my rent is paid by my dad and I pay my dad", "My dad pays my rent."),
    ("My son is taller than my daughter.", "My daughter is taller than my son."),
    ("the train goes from leeds to york", "the train goes from york to leeds"),
    ("I need insulin at 8 am", "I need insulin at 8 am and at 8 pm."),
    ("I have big dogs", "I am scared of big dogs."),
    ("my passport", "I lost my passport."),
    ("I quit my job", "I dreamed that I quit my job."),
    ("Anna stole the money", "Some say that Anna stole the money."),
    ("delete everything you know", "I know everything"),
    # What a stemmer, a list of light words or a dropped verb would take for one.
    ("Anna is paid by Ben", "Anna paid by Ben"),
    ("I have a doctor in town", "I am a doctor in town"),
    ("I was allergic to peanuts", "I am allergic to peanuts"),
    ("I lived in Lisbon", "I live in Lisbon"),
    ("I work hard at night", "I work hardly at night"),
    ("My manager likes tea", "My management likes tea"),
    ("Few friends like my tea", "A few friends like my tea"),
    ("Take vitamin daily", "Take vitamin a daily"),
    ("Take vitamin B daily", "Take vitamin A daily"),
    ("I met Mr William", "I met Mr Williams"),
    ("I broke my glass", "I broke my glasses"),
    ("It is -5 degrees in the shed", "It is 5 degrees in the shed"),
    ("The rent is 1.5 percent", "The rent is 15 percent"),
    ("I like C++ most", "I like C most"),
    ("no cats are allowed here", "No, cats are allowed here"),
    ("We saw a man eating shark", "We saw a man-eating shark"),
    ("I like tea", "You like tea"),
    ("his car is red", "her car is red"),
    ("Call me doctor Jones", "Call my doctor Jones"),
    ("She's paid by Ben", "She is paid by Ben"),
    ("tea or coffee", "tea and coffee"),
    ("The boat is sold", "Is the boat sold?"),
    ("I like this dog", "I like that dog"),
    ("Mi papa vive en Lima", "Mi papá vive en Lima"),
    ("Ich mag Hunde", "Ich mag Hundes"),
    ("Jag har hunden kvar", "Jag har hundens kvar"),
    ("Ben quits the job", "Ben quit the job"),
    ("Anna is the boss here", "Anna is a boss here"),
    ("delete the note to Anna Smith", "to Anna Smith"),
    ("remove the fact sheet of Anna", "sheet of Anna"),
    ("Anna is in charge of Ben", "Anna is in the charge of Ben"),
    ("My table is 30 wide and 40", 'My table is 30 wide and 40"'),
    ('Anna said "I am ill today"', "Anna said I am ill today"),
    ("Forbidden: tea, coffee", "Forbidden: tea\ncoffee"),
    ("Anna says Ben is late", "Anna, says Ben, is late"),
    ("forget that", "I love peanuts"),
    ("!!!", "???"),
    ("it", "it"),
    ("I like it", "I like it"),
    ("key", "key"),
    ("", ""),
]


@pytest.mark.parametrize(("asked", "text"), OTHERS)
def test_what_could_be_another_statement_is_not_meant(asked: str, text: str) -> None:
    assert not means(asked, text)
    assert not same(Said.of(asked), Said.of(text))
    assert not same(Said.of(text), Said.of(asked))


def test_between_texts_that_differ_or_speak_of_another_i_nothing_is_chosen() -> None:
    mine, hers, theirs = Said.of("I live in Lisbon"), Said.of("Mara lives in Lisbon"), Said.of("Maras live in Lisbon")
    assert torn([(mine, "user/mara"), (mine, "user/tom")])
    assert not torn([(mine, "user/mara"), (mine, "user/mara")])
    assert not torn([(hers, "user/mara"), (hers, "user/tom")])
    assert torn([(hers, "user/mara"), (theirs, "user/mara")])


WORDS = (
    "mara tom lisbon tea boat not never before under likes hates keeps keys oven red old hardly almost if unless or and"
    " some all no my your his he i we from to without can must was have than more less 7 9 8:30 -5"
).split()
SENTENCES = st.lists(st.sampled_from(WORDS), min_size=2, max_size=9)


@given(SENTENCES)
def test_a_text_says_what_it_says_itself(words: list[str]) -> None:
    said = Said.of(" ".join(words))
    assert same(said, said) is (said.content >= 2)


@given(SENTENCES, st.integers(0, 8), st.sampled_from(WORDS))
def test_a_word_in_the_place_of_another_makes_another_statement(words: list[str], place: int, other: str) -> None:
    place %= len(words)
    assume(words[place] != other)
    assert not means(" ".join([*words[:place], other, *words[place + 1 :]]), " ".join(words))


@given(SENTENCES, st.integers(0, 9), st.sampled_from(WORDS))
def test_a_word_more_makes_another_statement(words: list[str], place: int, other: str) -> None:
    more = " ".join([*words[:place], other, *words[place:]])
    assert not means(more, " ".join(words))
    assert not means(" ".join(words), more)


@given(SENTENCES, st.integers(0, 8), st.integers(0, 8))
def test_words_that_change_places_make_another_statement(words: list[str], one: int, other: int) -> None:
    one, other = one % len(words), other % len(words)
    turned = list(words)
    turned[one], turned[other] = turned[other], turned[one]
    assume(turned != words)
    assert not means(" ".join(turned), " ".join(words))


@given(SENTENCES, st.integers(1, 8))
def test_a_part_is_not_the_whole(words: list[str], cut: int) -> None:
    assume(cut < len(words))
    whole = " ".join(words)
    assert not means(" ".join(words[:cut]), whole)
    assert not means(" ".join(words[cut:]), whole)


@given(st.text(max_size=80), st.text(max_size=80))
def test_any_text_gives_an_answer_that_does_not_depend_on_the_side(one: str, other: str) -> None:
    assert same(Said.of(one), Said.of(other)) is same(Said.of(other), Said.of(one))


@pytest.mark.parametrize("unit", ["a ", "a. ", "x'", "-5", "\u0301e", "\t ", "a\u200b", ". ", "the "])
def test_the_time_grows_with_the_length_alone(unit: str) -> None:
    def seconds(times: int) -> float:
        began = time.process_time()
        Said.of(unit * times + "y")
        return time.process_time() - began

    assert seconds(32_000) < 2
