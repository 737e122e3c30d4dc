"""Measures a machine for simulations and plans: shared file system, local disk, memory, network.

Several ranks measure together if a launcher started them (docs/simulator.md)."""
