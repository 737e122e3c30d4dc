"""Outputs as ordinary files in the output tree of a node, and their way to the output directory."""
