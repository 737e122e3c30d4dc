"""Outputs: what programs write under a mount, from its first byte to the output directory."""
