"""Trees whose paths are longer than the kernel takes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

# A process of its own goes down step by step: there is no way back from so deep by a path.
MAKE = """
import os, sys
os.chdir(sys.argv[1])
for _ in range(int(sys.argv[2])):
    os.mkdir("d")
    os.chdir("d")
if sys.argv[3:]:
    with open(sys.argv[3], "w") as stream:
        stream.write("leaf")
"""


def make_deep(top: Path, depth: int, *leaf: str) -> None:
    """Makes `depth` directories in one another, the first one in `top`. leaf: the name of a file in
    the last one."""
    top.mkdir()
    subprocess.run([sys.executable, "-c", MAKE, top, str(depth), *leaf], check=True)
