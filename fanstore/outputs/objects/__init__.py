"""The real files of outputs, and the copies of other ranks' on this node."""
