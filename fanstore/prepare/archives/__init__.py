"""Archives as sources of a dataset: tar and zip."""
