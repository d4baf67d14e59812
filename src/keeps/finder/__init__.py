"""The index for searching: it gives ids and scores, and can be thrown away and rebuilt from the record."""
