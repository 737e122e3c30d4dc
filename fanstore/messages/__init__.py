"""Messages between wrapper, daemon, commands and ranks: their types, and how they are sent."""
