"""The node daemon: its job directory, its segment and its life."""
