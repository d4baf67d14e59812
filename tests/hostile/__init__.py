"""Hostile inputs. The checks live in modules of their own, whose assertions tell as much as those of tests."""

import pytest

pytest.register_assert_rewrite(
    *(f"tests.hostile.{name}" for name in "bodies callers fences place regions words".split())
)
