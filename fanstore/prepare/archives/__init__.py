"""The formats of archives: tar and zip."""
