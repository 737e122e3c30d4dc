"""Outputs: files that programs write under a mount, from their creation to their place in the
output directory."""
