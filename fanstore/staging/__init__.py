"""Copies packs from the shared file system to the nodes, and decides which node gets which."""
