"""Reads a packed dataset in any Python program, by path, by number or through fsspec, without a
daemon or a mount."""
