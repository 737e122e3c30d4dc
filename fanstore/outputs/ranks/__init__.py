"""Decides which rank keeps the names of a directory, and asks that rank."""
