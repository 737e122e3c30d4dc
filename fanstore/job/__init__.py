"""The node daemon of a job: its life, its job directory and its segment."""
