"""Which rank keeps the names of a directory, and how the others ask it."""
