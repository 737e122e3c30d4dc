"""Calls between the node daemons of a job: a rank calls a function of another rank by its name."""
