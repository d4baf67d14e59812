"""Models: what turns text into vectors, each behind one protocol."""
