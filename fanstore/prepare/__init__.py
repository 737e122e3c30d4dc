"""Packing a source into a dataset: scan, plan, gather and compress, write, index."""
