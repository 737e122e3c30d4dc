"""Access orders: in which order the samplers and shuffles of frameworks read a dataset.

Each function takes the number of samples, the first epoch and what its framework is told (seeds,
sizes), checks them at once, and returns an endless iterator: the orders of that epoch and of those
after it, each an array of uint32 that holds sample numbers. reads.py says what one rank or worker
reads of an order; accelerate and DALI divide it in other ways (batch_sampler_shard.py,
dali_random_shuffle.py).
"""
