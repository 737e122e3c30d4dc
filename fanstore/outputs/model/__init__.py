"""What an output is: entries, tables of names, requests and answers. Pure: no files, no ranks."""
