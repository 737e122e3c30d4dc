"""The order in which a loader is expected to read, and whether its opens follow that order.
Pure."""
