"""When samples are read, where to keep them, and how long reading takes.

Pure: no clock, no files, no MPI. The same code decides in a job and in a simulation of one.
"""
