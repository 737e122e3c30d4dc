"""What a directory holds, as JSON: how tests/prepare/golden/v1/tree.json was made.

describe.py DIRECTORY > tree.json
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import sys
from pathlib import Path


def described(root: Path) -> dict[str, list[object]]:
    """By path below `root`: mode, time of change in ns, and the SHA-256 of the bytes or the target
    of a link."""
    found: dict[str, list[object]] = {}
    for folder, directories, files in os.walk(root):
        for name in directories + files:
            path = Path(folder, name)
            facts = path.lstat()
            what: object = None
            if stat.S_ISLNK(facts.st_mode):
                what = os.readlink(path)
            elif stat.S_ISREG(facts.st_mode):
                what = hashlib.sha256(path.read_bytes()).hexdigest()
            found[str(path.relative_to(root))] = [oct(facts.st_mode), facts.st_mtime_ns, what]
    return dict(sorted(found.items()))


if __name__ == "__main__":
    json.dump(described(Path(sys.argv[1])), sys.stdout, indent=1)
