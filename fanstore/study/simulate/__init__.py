"""How long a job would take on a machine, by the models of the papers, under each policy.

A scenario (TOML) says what the machine, the dataset and the job are. Nothing is read or written but
that, and the same scenario gives the same numbers.
"""
