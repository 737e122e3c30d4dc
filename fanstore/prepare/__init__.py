"""Packs a source into a dataset: scan, plan, read and compress, write, index."""
