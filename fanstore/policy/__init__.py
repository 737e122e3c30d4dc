"""What is read when, which samples to keep where, and how long that takes.

Pure: no clock, no files, no MPI. The same code decides in a job and in a simulation of one.
"""
