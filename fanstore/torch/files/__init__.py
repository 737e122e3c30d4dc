"""Datasets of files for torch: in a directory, a mount, or packed."""
