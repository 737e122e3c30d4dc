"""Prometheus metrics of one rank: what a daemon's figures are called there, and in which units."""
