"""Watches a running job: counters and rates of its ranks, for people and Prometheus, and the server
that answers their requests."""
