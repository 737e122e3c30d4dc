"""Brings files of a job that runs near this node, before anybody reads them."""
