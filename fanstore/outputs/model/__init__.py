"""The model of an output: entries, names, requests and answers. Pure: no files, no ranks."""
