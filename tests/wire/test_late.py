"""A module that is loaded when something of it is asked for."""

from __future__ import annotations

import sys

import pytest

from keeps.wire.late import Late


def test_a_module_is_loaded_when_it_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    module = Late("colorsys")
    assert "colorsys" not in sys.modules
    assert module.rgb_to_hsv(0, 0, 0) == (0.0, 0.0, 0)
    assert "colorsys" in sys.modules
    with pytest.raises(AttributeError):
        _ = module.nothing_of_this_name
    with pytest.raises(AttributeError):
        _ = module.__wrapped__
