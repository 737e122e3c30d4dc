"""The model of an output: entries, names, requests and answers. Pure: uses no files and no
ranks."""
