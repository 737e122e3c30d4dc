"""Finds out how a program can be made to see a mount, from the program's file."""
