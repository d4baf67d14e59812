"""Sensitive topics and personal data: found where a text is about them, not by a word that means another thing."""

from __future__ import annotations

import pytest

from keeps.core.folding import plain_words
from keeps.core.screen import TOPICS, screen, topics_of
from keeps.core.sensitive import personal_in

ABOUT = [
    ("health", "what did the doctor say about my asthma"),
    ("health", "I was diagnosed with diabetes last year"),
    ("health", "Mara takes her pills at eight"),
    ("health", "Ich nehme Medikamente gegen Bluthochdruck"),
    ("health", "Estoy embarazada de tres meses"),
    ("health", "Je suis allergique aux arachides, dit mon médecin"),
    ("sex", "my brother is gay"),
    ("sex", "Sie ist lesbisch"),
    ("sex", "su orientación sexual"),
    ("sex", "Il est bisexuel"),
    ("religion", "She is a devout Christian"),
    ("religion", "we go to church every Sunday, to our church"),
    ("religion", "Er ist katholisch"),
    ("religion", "Soy musulmana"),
    ("religion", "Elle est juive"),
    ("politics", "I voted for the Green party"),
    ("politics", "Ich habe die SPD gewählt"),
    ("politics", "Voté por el PSOE, son mis ideas políticas"),
    ("politics", "ses opinions politiques"),
    ("union", "I joined the trade union"),
    ("union", "Er ist in der Gewerkschaft"),
    ("union", "Soy del sindicato"),
    ("union", "Il est membre de la CGT"),
    ("ethnicity", "her ethnicity is in the form"),
    ("ethnicity", "die ethnische Herkunft"),
    ("ethnicity", "mi origen étnico"),
    ("ethnicity", "son origine ethnique"),
    ("genetics", "my DNA test came back"),
    ("genetics", "Der Gentest war positiv"),
    ("genetics", "la prueba genética"),
    ("genetics", "le test génétique"),
    ("criminal_record", "he has a criminal record"),
    ("criminal_record", "Sie ist vorbestraft"),
    ("criminal_record", "tiene antecedentes penales"),
    ("criminal_record", "son casier judiciaire"),
    ("money", "I am behind on my rent"),
    ("money", "Ich habe Schulden"),
    ("money", "tengo deudas"),
    ("money", "il est surendetté, avec ses dettes"),
    ("immigration", "my visa expires in May"),
    ("immigration", "Der Asylantrag läuft"),
    ("immigration", "está sin papeles"),
    ("immigration", "le titre de séjour"),
    ("self_harm", "I wanted to kill myself"),
    ("self_harm", "Suizidgedanken"),
    ("self_harm", "piensa en suicidarse, tuvo pensamientos de suicidio"),
    ("self_harm", "des idées suicidaires, le suicide"),
    ("children", "my daughter starts school"),
    ("children", "Mein Sohn ist krank im Bett"),
    ("children", "mis hijos juegan al fútbol"),
    ("children", "ma fille a six ans"),
    ("location", "my home address is on the card"),
    ("location", "she is at 52.52000, 13.40500 now"),
    ("location", "Ich wohne in der Lindenstraße"),
    ("location", "Vivo en la calle Mayor"),
    ("location", "J'habite au 12 rue des Lilas"),
    ("family", "we are getting a divorce"),
    ("family", "die Scheidung läuft"),
    ("family", "el divorcio de mis padres"),
    ("family", "violences conjugales"),
]

NOT_ABOUT = [
    "what is the weather",
    "I run the health-check service",
    "the health check fails every night",
    "the kill switch is documented",
    "kill the process with signal 9",
    "religiously tested before every release",
    "the library is database-agnostic",
    "union types are allowed in Python 3.11",
    "the European Union adopted it",
    "pay back the technical debt",
    "we reduce tech debt every Friday",
    "the child process exits first",
    "children of the node are sorted",
    "the parent component renders its children",
    "an undocumented API of the vendor",
    "pay by Visa or Mastercard",
    "the probation period at work is six months",
    "she diagnosed the bug in an hour",
    "the symptoms of the outage were slow pages",
    "a blind spot in monitoring",
    "the feature flag is disabled",
    "the build is broken",
    "I broke the build",
    "conservative estimates only",
    "a left join on the orders table",
    "vote for your favourite logo",
    "Christian leads the platform team",
    "the God object must go",
    "the doctor command checks the folder",
    "dark theme, white background",
    "the race condition is fixed",
    "divorced from reality, as specs go",
    "the suicide squad film was fun",
    "die Kinderkrankheiten der neuen Version",
    "technische Schulden abbauen",
    "sin embargo, funciona",
    "la sombra de la duda",
    "le syndicat de copropriété",
    "dettes techniques à rembourser",
    "Wie wird das Wetter morgen?",
    "¿Qué tiempo hace hoy?",
    "quel temps fait-il",
    "prefers short answers in British English",
    "the meeting is in room 52.5 at noon",
]  # fmt: skip


@pytest.mark.parametrize(("topic", "text"), ABOUT)
def test_a_topic_is_found_in_a_text_about_it(topic: str, text: str) -> None:
    assert topic in topics_of(text)
    assert screen(text).sensitivity == "sensitive"


@pytest.mark.parametrize("text", NOT_ABOUT)
def test_a_word_that_means_another_thing_is_no_topic(text: str) -> None:
    assert topics_of(text) == frozenset()


def test_every_topic_is_found_in_four_languages() -> None:
    assert {topic for topic, _ in ABOUT} == TOPICS
    for topic in TOPICS:
        assert sum(each == topic for each, _ in ABOUT) >= 4, topic


def test_a_question_and_a_memory_meet_in_their_topic() -> None:
    assert topics_of("what did the doctor say about my asthma") & topics_of("Has asthma since childhood")
    assert not topics_of("what is the weather") & topics_of("Has asthma since childhood")


def test_writing_does_not_matter() -> None:
    for text in (
        "MY ASTHMA",
        "my a\u200bsthma",
        "ｍｙ ａｓｔｈｍａ",
        "my\nasthma",
        "Mi diabe\u0301tico hermano, diabético",
    ):
        assert topics_of(text) == {"health"}, text


PERSONAL = [
    ({"email"}, "write to mara.quinn+x@example.co.uk"),
    ({"phone"}, "her number is +44 20 7946 0958"),
    ({"phone"}, "ring (415) 555-2671"),
    ({"phone"}, "Telefon 030 1234567"),
    ({"address"}, "12 Long Garden Road"),
    ({"address"}, "Lindenstraße 12"),
    ({"address"}, "calle de la Luna 5"),
    ({"address"}, "12 rue des Lilas"),
    ({"birth_date"}, "born on 12 May 1980"),
    ({"birth_date"}, "Geburtstag: 12.05.1980"),
    ({"birth_date"}, "fecha de nacimiento 12/05/1980"),
    ({"birth_date"}, "née le 12 mai 1980"),
    (set[str](), "order 123456 of 2026-11-30"),
    (set[str](), "version 1.22.333 runs at 10:30"),
    (set[str](), "use @pytest.fixture for it"),
    (set[str](), "she was born in a small town"),
]


@pytest.mark.parametrize(("names", "text"), PERSONAL)
def test_personal_data(names: set[str], text: str) -> None:
    assert personal_in(plain_words(text)) == names


@pytest.mark.parametrize("seed", ["my ", "debt ", "12 foo ", "rue de ", "born on ", "+1 ", "a@", "a.", "1.123 ", "é"])
def test_long_hostile_texts_take_time_in_proportion_to_their_length(seed: str) -> None:
    # What takes the square of the length takes hours here, and the time limit of every test ends it.
    text = seed * (128 * 1024 // len(seed))
    topics_of(text)
    personal_in(plain_words(text))


def test_letters_of_another_alphabet_hide_no_topic() -> None:
    assert screen("My div\u043erce is final").topics == {"family"}
