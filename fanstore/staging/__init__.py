"""From the shared file system to the node: where packs go, and how they get there."""
