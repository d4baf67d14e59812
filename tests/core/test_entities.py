"""Entity references and normal forms."""

from __future__ import annotations

import pytest
from hypothesis import given

from keeps.core.entities import (
    EntityRef,
    EntityType,
    entity_ref,
    normalise_key,
    normalise_label,
    normalise_name,
    normalise_type,
    normalise_verb,
    parse_ref,
)
from keeps.core.errors import Invalid
from tests.core.strategies import texts


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("person", "person"),
        (" Person ", "person"),
        ("company", "organisation"),
        ("ORG", "organisation"),
        ("organization", "organisation"),
        ("organisation", "organisation"),
        ("unknown", "other"),
        ("starship", "other"),
        ("", "other"),
    ],
)
def test_types(written: str, expected: str) -> None:
    assert normalise_type(written) is EntityType(expected)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("Mara", "mara"),
        ("  Mara \t  Okafor ", "mara okafor"),
        ("Cafe\u0301", "café"),
        ("STRASSE", "strasse"),
        ("Straße", "strasse"),
        ("Alice Smith/1", "alice smith/1"),
        ("ma\u202era", "mara"),
    ],
)
def test_names(written: str, expected: str) -> None:
    assert normalise_name(written) == expected


@pytest.mark.parametrize("bad", ["", "  ", "\u200b", "a\0b", "a\ud800", "x" * 257])
def test_names_that_are_refused(bad: str) -> None:
    with pytest.raises(Invalid):
        normalise_name(bad)


@given(texts)
def test_a_normal_name_is_its_own_normal_name(text: str) -> None:
    try:
        name = normalise_name(text)
    except Invalid:
        return
    assert normalise_name(name) == name
    ref = entity_ref("person", text)
    assert parse_ref(ref.wire) == parse_ref(str(ref)) == ref
    assert entity_ref("topic", text) != ref


@pytest.mark.parametrize("written", ["entity:person/mara", "person/mara", "person:mara", " Person/ MARA "])
def test_references_in_every_form(written: str) -> None:
    ref = parse_ref(written)
    assert ref == EntityRef(EntityType.PERSON, "mara")
    assert str(ref) == "person/mara"
    assert ref.wire == "entity:person/mara"


def test_only_the_first_separator_divides() -> None:
    assert parse_ref("person/alice smith/1").name == "alice smith/1"
    assert parse_ref("topic/a:b").name == "a:b"
    assert parse_ref("topic:a/b").name == "a/b"


@pytest.mark.parametrize("bad", ["", "mara", "/mara", "person/", "person:", "entity:", "entity:mara", "person/\0"])
def test_references_that_are_refused(bad: str) -> None:
    with pytest.raises(Invalid):
        parse_ref(bad)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("gap.kind", "gap_kind"),
        ("Gap Kind", "gap_kind"),
        ("gap-kind", "gap_kind"),
        ("gap/kind", "gap_kind"),
        ("gap . - kind", "gap_kind"),
        ("_role_", "role"),
        ("WORKS_AT", "works_at"),
        ("c++", "c++"),
        ("Größe", "größe"),
        ("x" * 128, "x" * 128),
    ],
)
def test_keys(written: str, expected: str) -> None:
    assert normalise_key(written) == normalise_label(written) == normalise_verb(written) == expected


@pytest.mark.parametrize("bad", ["", "...", "_-_", "a\0", "x" * 129])
def test_keys_that_are_refused(bad: str) -> None:
    with pytest.raises(Invalid):
        normalise_key(bad)


@given(texts)
def test_a_normal_key_is_its_own_normal_key(text: str) -> None:
    try:
        key = normalise_key(text)
    except Invalid:
        return
    assert normalise_key(key) == key
    assert not set(key) & set("./- \t\n\x1f")
