"""Outputs as ordinary files: what brings the output tree of a node to the output directory."""
