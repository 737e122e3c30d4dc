"""Partition files in the layout of Table 3 of the FanStore paper: imports them into datasets, and
exports datasets to them. Supports only uncompressed files."""
