"""The plan of a job, computed before it, and its file: the files that each node keeps and fetches.

docs/planning.md explains how a plan is made, docs/format.md the bytes of its file.
"""
