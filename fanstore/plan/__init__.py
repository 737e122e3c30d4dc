"""What each node keeps and fetches in a job, worked out before it: the plan, and its file.

docs/planning.md says how one is made, docs/format.md what its bytes are.
"""
