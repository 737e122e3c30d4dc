"""Messages between wrapper, daemon, commands and ranks: their types, and the sockets that carry
them."""
