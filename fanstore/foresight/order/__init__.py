"""What a loader is going to open, and whether its opens go that way (pure)."""
