"""The parts of the node daemon around its C core: the job segment, the lanes of the access trace,
the mount prefixes."""
