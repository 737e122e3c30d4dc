"""Computes how long a job would take on a machine, by the models of the papers, under each policy.

A scenario (TOML) describes the machine, the dataset and the job. The same scenario gives the same
numbers.
"""
