"""Tries an installed wheel: a job of one rank, and one of two, which load the transport in the
wheel. python release_trial.py DIRECTORY"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

READ = (
    "import hashlib, os, pathlib\n"
    "root = pathlib.Path(os.environ['FANSTORE_MOUNT_PREFIX'])\n"
    "content = b''.join(path.read_bytes() for path in sorted(root.rglob('file-*')))\n"
    "print(hashlib.sha256(content).hexdigest())\n"
)


def main() -> None:
    work = Path(sys.argv[1])
    if shutil.which("cc") or shutil.which("gcc"):
        raise SystemExit("there is a compiler on PATH; this shows nothing")
    source = work / "source"
    source.mkdir()
    contents = [os.urandom(3000 + number) for number in range(100)]
    for number, content in enumerate(contents):
        (source / f"file-{number:03}").write_bytes(content)
    expected = hashlib.sha256(b"".join(contents)).hexdigest()
    fanstore = [sys.executable, "-m", "fanstore"]
    prepare = [*fanstore, "prepare", "--quiet", "--partitions", "4", source, work / "data"]
    subprocess.run(prepare, check=True)
    for ranks in (1, 2):
        local = work / "local" / (str(ranks) if ranks == 1 else "{rank}")
        run = [*fanstore, "run", "--quiet", "--dataset", work / "data", "--mount", work / "mount"]
        run += ["--local-dir", local, "--", sys.executable, "-c", READ]
        several = ["mpiexec", "-n", "2"] if ranks > 1 else []
        done = subprocess.run([*several, *run], stdout=subprocess.PIPE, text=True, timeout=120)
        if done.returncode != 0 or done.stdout.split() != [expected] * ranks:
            raise SystemExit(f"{ranks} ranks: exit code {done.returncode}, {done.stdout}")
        print(f"trial: {ranks} rank{'s' * (ranks > 1)}: what was packed was read")


if __name__ == "__main__":
    main()
