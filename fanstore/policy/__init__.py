"""Policies: the order in which samples are read, and where they are kept.

Pure: no clock, no files, no MPI. A job and a simulation of it run the same code."""
