"""Finds the kind of a program from its file, and how it can be made to see a mount."""
