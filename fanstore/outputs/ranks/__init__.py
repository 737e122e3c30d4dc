"""Outputs of jobs with several ranks: decides which rank keeps the names of a directory, and asks
that rank."""
