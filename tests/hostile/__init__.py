"""Hostile inputs. The checks live in modules of their own, whose assertions tell as much as those of tests."""

import pytest

pytest.register_assert_rewrite(
    *(
        f"tests.hostile.{name}"
        for name in (
            "bodies callers citing deciding faces fences guessing place regions screening tampering words".split()
        )
    )
)
