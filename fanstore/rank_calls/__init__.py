"""Calls between the node daemons of a job; knows nothing of what they are about."""
