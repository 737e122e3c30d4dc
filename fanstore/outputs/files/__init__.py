"""Copies files from the node to the output directory, and keeps those of a killed job."""
