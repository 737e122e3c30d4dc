"""A job's expected reads: announced by its loaders, learnt from its reads, or named by its user."""
