"""Brings files of a running job near this node, before programs read them."""
