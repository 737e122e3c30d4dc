"""Batches on their way from a loader's workers to its process, in memory that both map."""
