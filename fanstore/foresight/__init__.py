"""What a job will read: heard from its loaders, learnt from its reads, or named by its user."""
