"""Reads the objects of a bucket: their names, and their bytes. The packages that speak to buckets
are loaded here alone."""
