"""What holds for every test: no model is loaded unless a test asks for one by name."""

from __future__ import annotations

import os

# Before anything reads it, and over what the shell of a developer says. Tests that strip our settings from an
# environment keep this one.
os.environ["KEEPS_EMBEDDER"] = "none"
