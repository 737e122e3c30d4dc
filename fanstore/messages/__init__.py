"""The types of the messages between wrapper, daemon, commands and ranks, and the sockets that carry
them."""
