"""Makes a plan file: the files that each node of a job is to keep and to fetch."""
