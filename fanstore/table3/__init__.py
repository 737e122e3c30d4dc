"""Partition files in the layout of Table 3 of the FanStore paper: read into and written from
datasets. Uncompressed ones only."""
