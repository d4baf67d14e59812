"""What holds for every test: no model is loaded, and nothing waits for a person, unless a test asks for it by name."""

from __future__ import annotations

import os

# Before anything reads it, and over what the shell of a developer says. Tests that strip our settings from an
# environment keep this one.
os.environ["KEEPS_EMBEDDER"] = "none"
os.environ["KEEPS_POLICY"] = "automatic"
