"""Makes a plan file: what each node of a job is to keep and to fetch."""
