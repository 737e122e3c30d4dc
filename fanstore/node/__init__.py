"""The daemon's parts beside its C core: the segment, the lanes of the access trace, the mount
prefix."""
