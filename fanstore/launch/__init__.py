"""Starts a command under FanStore, and waits for its end."""
