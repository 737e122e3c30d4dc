"""What a program's calls do to the names of outputs: each request of a client, on all ranks."""
