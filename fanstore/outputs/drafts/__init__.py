"""Outputs that are being written: who writes them, and when they are finished."""
