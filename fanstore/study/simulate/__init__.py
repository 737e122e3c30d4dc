"""Simulates how long a job would take on a machine under each policy, by the models of the papers.

A scenario (TOML) describes the machine, the dataset and the job. The same scenario always gives the
same numbers."""
