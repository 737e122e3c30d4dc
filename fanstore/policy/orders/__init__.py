"""Access orders: the orders in which the samplers and shuffles of frameworks read a dataset.

Each function takes the number of samples, the first epoch and the arguments of its framework
(seeds, sizes), checks them at once, and returns an endless iterator: the orders of that epoch and
of those after it, each an array of uint32 that holds sample numbers. registry.py gives the reads of
one rank; accelerate and DALI divide an order in their own ways (batch_sampler_shard,
rotating_shard).
"""
