"""What people and Prometheus see of a running job: counters of its ranks, rates, and who asks."""
