"""Calls between the node daemons of a job; independent of what the calls do."""
