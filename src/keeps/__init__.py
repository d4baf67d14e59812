"""Agent memory that people can see, correct and erase."""
