"""Datasets of files for torch, from a directory, a mount or a packed dataset."""
