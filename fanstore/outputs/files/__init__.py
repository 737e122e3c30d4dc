"""Files on their way from the node to the output directory, and files that are saved when a job was
killed."""
