"""Starts a command under FanStore and stays with it until its end."""
