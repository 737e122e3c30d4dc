"""Reading a packed dataset from any Python: by name, by number, through fsspec. No daemon, no
mount."""
