"""Starting a command under FanStore and seeing it to its end."""
