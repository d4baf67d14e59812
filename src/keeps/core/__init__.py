"""Values and pure rules: no input, output, clock or randomness."""
