"""Outputs as ordinary files: brings the output tree of a node to the output directory."""
