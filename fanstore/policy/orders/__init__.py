"""Access orders: in which order the samplers and shuffles of frameworks read a dataset.

Each function takes the number of samples, the first epoch and what its framework is told (seeds,
sizes), checks them at once, and returns an endless iterator: the orders of that epoch and of those
after it, each an array of uint32 that holds sample numbers. What one rank or worker reads of an
order is in reads.py, what accelerate and DALI do for that in files of their own.
"""
