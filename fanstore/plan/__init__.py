"""The plan of a job and its file. A plan is computed before the job and says which files each node
keeps and fetches.

docs/planning.md explains how a plan is made, docs/format.md the bytes of its file."""
