"""What the tables of priors promise each other."""

from __future__ import annotations

import pytest

from keeps.core.facts import (
    AUTHORITATIVE_SOURCES,
    CONFIDENCE_FLOOR,
    IMPORTANCE,
    PROVENANCE_TRUST,
    TRUST,
    Category,
    Origin,
    Pillar,
    Source,
)


def test_every_origin_and_category_has_a_weight_within_bounds() -> None:
    assert set(TRUST) == set(Origin)
    assert set(IMPORTANCE) == set(Category)
    assert all(0 < weight <= 1 for weight in (*TRUST.values(), *IMPORTANCE.values(), *PROVENANCE_TRUST.values()))


def test_people_weigh_more_than_what_is_guessed() -> None:
    people = (Origin.USER_SAVED, Origin.USER_CONFIRMED, Origin.ADMIN_SET)
    assert min(TRUST[origin] for origin in people) > max(TRUST[o] for o in Origin if o not in people)
    assert TRUST[Origin.DERIVED] < TRUST[Origin.AGENT_INFERRED] < TRUST[Origin.AUTO_ACCEPTED]


def test_what_lasts_matters_more() -> None:
    assert IMPORTANCE[Category.IDENTITY] > IMPORTANCE[Category.KNOWLEDGE] > IMPORTANCE[Category.CONTEXT]


@pytest.mark.parametrize("kind", sorted(PROVENANCE_TRUST))
def test_a_source_belongs_to_one_stream(kind: str) -> None:
    source = Source(kind=kind, trust=PROVENANCE_TRUST[kind])
    curated = kind in {"document", "upsert"}
    assert (source.pillar is Pillar.AUTHORITATIVE) == curated


def test_what_is_derived_cannot_close_anything_by_its_prior_alone() -> None:
    derived = set(PROVENANCE_TRUST) - AUTHORITATIVE_SOURCES
    assert all(PROVENANCE_TRUST[kind] < CONFIDENCE_FLOOR for kind in derived)
    assert PROVENANCE_TRUST["upsert"] >= CONFIDENCE_FLOOR
