"""Outputs: files that programs write under a mount, from their first byte to the output
directory."""
