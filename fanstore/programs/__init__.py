"""What kind of program a file is, and how it can be brought to see a mount."""
