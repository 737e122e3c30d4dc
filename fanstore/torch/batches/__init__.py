"""Passes batches from a loader's workers to the loader's process, in memory that both map."""
