"""Access orders: the orders in which the samplers and shuffles of frameworks read a dataset.

Each function takes the number of samples, the first epoch and the arguments of its framework
(seeds, sizes), and checks them at once. It returns an endless iterator over the orders of that
epoch and of those after it, each an array of sample numbers (uint32). registry.py gives the reads
of one rank; accelerate and DALI divide an order in their own ways (batch_sampler_shard,
rotating_shard)."""
