"""Makes a plan file, which says which files each node of a job keeps and fetches."""
