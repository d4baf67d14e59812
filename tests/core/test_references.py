"""References: every form names what it should, and nothing else is taken."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keeps.core.entities import EntityRef, EntityType, entity_ref
from keeps.core.errors import Invalid
from keeps.core.references import KeyReference, Reference, RelationReference, RowReference, parse_reference

MARA = EntityRef(EntityType.PERSON, "mara")
PORT = EntityRef(EntityType.ORGANISATION, "north port")
ROW = "b7d1e9f3b7d1e9f3b7d1"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("entity:person/mara", MARA),
        (" entity:Person/ MARA ", MARA),
        ("person/mara", MARA),
        ("person:Mara", MARA),
        ("company:North  Port", PORT),
        ("entity:person/alice/1", EntityRef(EntityType.PERSON, "alice/1")),
        ("entity:starship/x", EntityRef(EntityType.OTHER, "x")),
        ("attribute:person/mara/role", KeyReference(MARA, "role")),
        ("attribute:person/Mara/Gap.Kind", KeyReference(MARA, "gap_kind")),
        ("attribute:person/alice/1/role", KeyReference(EntityRef(EntityType.PERSON, "alice/1"), "role")),
        ("relation:person/mara-[works_at]->org/North Port", RelationReference((MARA,), "works_at", (PORT,))),
        ("relation:person/mara/Works at/org/North Port", RelationReference((MARA,), "works_at", (PORT,))),
        (f"attribute:{ROW}", RowReference("attribute", ROW)),
        (f"relates_to:{ROW}", RowReference("relates_to", ROW)),
        (f"relation:{ROW}", RowReference("relates_to", ROW)),
        (f"action:{ROW}", RowReference("action", ROW)),
        (f"turn:{ROW}", RowReference("turn", ROW)),
        (f"memory_chunk:{ROW}_0", RowReference("memory_chunk", f"{ROW}_0")),
        (f"session:{ROW}", RowReference("session", ROW)),
        (f"uncertainty:{ROW}", RowReference("uncertainty", ROW)),
        (f"decision_trace:{ROW}", RowReference("trace", ROW)),
        ("doc:d1", RowReference("document", "d1")),
        ("passage:d1/3", RowReference("passage", "d1/3")),
        (ROW, RowReference(None, ROW)),
        (f"{ROW}_12", RowReference(None, f"{ROW}_12")),
    ],
)
def test_every_form(text: str, expected: Reference) -> None:
    assert parse_reference(text) == expected


def test_names_without_types_mean_every_type() -> None:
    found = parse_reference("relation:Mara/works_at/North Port")
    assert isinstance(found, RelationReference)
    assert MARA in found.subjects
    assert PORT in found.objects
    assert len(found.subjects) == len(EntityType)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "mara",
        "starship:x",
        "starship/x",
        "entity:",
        "entity:mara",
        "entity:/mara",
        "entity:person/",
        "attribute:person/mara",
        "attribute:person/mara/",
        "attribute:person/mara/...",
        "attribute:",
        "relation:a/b",
        "relation:a/b/c/d",
        "relation:person/mara-[]->person/bo",
        "relation:mara-[knows]->bo",
        "turn:",
        "turn:a b",
        "turn:a/b",
        "passage:d1",
        "passage:d1/x",
        "session:é",
        "entity:person/a\0b",
        "x" * 1025,
    ],
)
def test_what_is_no_reference(text: str) -> None:
    with pytest.raises(Invalid):
        parse_reference(text)


@given(st.text(max_size=60))
def test_any_text_is_a_reference_or_refused(text: str) -> None:
    with suppress(Invalid):
        assert isinstance(parse_reference(text), Reference)


_names = st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1, max_size=12)


@given(st.sampled_from(EntityType), _names)
def test_the_form_clients_are_given_names_the_same_again(type_: EntityType, name: str) -> None:
    ref = entity_ref(type_, name)
    assert parse_reference(ref.wire) == ref
    assert parse_reference(f"attribute:{ref}/role") == KeyReference(ref, "role")
    assert parse_reference(f"relation:{ref}-[knows]->{ref}") == RelationReference((ref,), "knows", (ref,))
