"""From the node's objects to the output directory, and what is saved when a job was killed."""
