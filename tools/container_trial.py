"""Trains in containers with an older and a newer C library than this machine's, on plain files and
through FanStore, and compares: runs the demo's trainer with the Python, NumPy and Pillow of each
image.

    python tools/container_trial.py FANSTORE

FANSTORE: the program of a wheel that runs from glibc 2.28 on, because the build of this checkout is
too new for the older image. `make release` calls this. The images are Debian's packages, entered by
bubblewrap. Tools that are missing here are named; that is no failure."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import debian_root

ROOT = Path(__file__).resolve().parents[1]
TRAINER = ROOT / "tools" / "demo" / "train.py"
RELEASES = {"bullseye": "2.31", "trixie": "2.41"}  # the version of glibc in each
PACKAGES = ("dash", "coreutils", "libc6", "python3", "python3-numpy", "python3-pil")
LIMIT_S = 300
# The link that update-alternatives would make if packages were installed and not only unpacked.
_BLAS = ":".join(f"/usr/lib/x86_64-linux-gnu/{name}" for name in ("blas", "lapack"))
_IMAGES = """
import os, random, sys
from PIL import Image
chance = random.Random(1)
for label in range(10):
    os.makedirs(f"{sys.argv[1]}/{label}")
    for number in range(100):
        pixels = bytes(min(255, chance.randrange(128) + 12 * label) for _ in range(64))
        Image.frombytes("L", (8, 8), pixels).save(f"{sys.argv[1]}/{label}/{number}.png")
"""


def missing() -> str:
    """Returns why containers cannot be made here; "" if they can."""
    absent = [name for name in ("bwrap", *debian_root.NEEDED) if shutil.which(name) is None]
    if absent:
        return f"{', '.join(absent)} not found (on Debian: bubblewrap)"
    probe = ["bwrap", "--bind", "/", "/", "true"]
    failed = subprocess.run(probe, capture_output=True, check=False).returncode != 0
    return "bwrap may make no containers here" if failed else ""


def complete(root: Path) -> None:
    """Adds the files of the package base-files, and the directories in which bwrap mounts file
    systems."""
    for name in ("bin", "lib", "lib64"):
        if not (root / name).exists():
            (root / name).symlink_to(f"usr/{name}")
    if not (root / "bin" / "sh").exists():
        (root / "bin" / "sh").symlink_to("dash")
    for name in ("proc", "dev", "tmp"):
        (root / name).mkdir(exist_ok=True)


class Image:
    """A container: the words that start it, and commands in it."""

    def __init__(self, root: Path, work: Path) -> None:
        binds = ["--bind", root, "/", "--bind", work, work, "--ro-bind", TRAINER.parent, "/demo"]
        words = ["bwrap", *binds, "--proc", "/proc", "--dev", "/dev"]
        self.words = [str(word) for word in words]
        settings = [f"LD_LIBRARY_PATH={_BLAS}", "OPENBLAS_NUM_THREADS=1"]
        self.python = ["env", *settings, "/usr/bin/python3"]

    def call(self, *command: str) -> str:
        return output([*self.words, *self.python, *command])

    def train(self, folder: Path, fanstore: list[str]) -> dict[str, Any]:
        """Returns what the trainer learned from a folder. fanstore: `run` with its options, or
        nothing."""
        program = [*self.python, "/demo/train.py", str(folder), "--epochs", "3"]
        inside = ["--container", shlex.join(self.words), "--"] if fanstore else self.words
        said = json.loads(output([*fanstore, *inside, *program]).splitlines()[-1])
        return {name: said[name] for name in ("files", "losses", "accuracy")}


def output(command: list[str]) -> str:
    """Returns a command's stdout. Raises SystemExit if it fails."""
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=LIMIT_S, check=False)
    if done.returncode != 0:
        raise SystemExit(f"container: {shlex.join(command)}: exit code {done.returncode}")
    return done.stdout


def try_image(root: Path, glibc: str, fanstore: list[str]) -> None:
    """Trains on plain images, and on the same ones in a mount. Raises SystemExit if the results
    differ."""
    with tempfile.TemporaryDirectory(prefix="fanstore-container-") as scratch:
        work = Path(scratch)
        image = Image(root, work)
        image.call("-c", _IMAGES, str(work / "plain"))
        output([*fanstore, "prepare", "--quiet", str(work / "plain"), str(work / "data")])
        where = ["--dataset", str(work / "data"), "--mount", str(work / "mount")]
        run = [*fanstore, "run", "--quiet", *where, "--local-dir", scratch]
        plain, ours = image.train(work / "plain", []), image.train(work / "mount", run)
        if plain != ours or plain["files"] != 1000:
            raise SystemExit(f"container: with glibc {glibc}: {plain} became {ours}")
        print(f"container: an image with glibc {glibc} learned the same through FanStore")


def run(fanstore: Path) -> None:
    """Tries the program `fanstore` of an installation in each image."""
    if missing():
        print(f"container: no trial: {missing()}")
        return
    for release, glibc in RELEASES.items():
        root = ROOT / "build" / "images" / release
        debian_root.unpack(root, release, "amd64", PACKAGES)
        complete(root)
        try_image(root, glibc, [str(fanstore)])


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    run(Path(sys.argv[1]))
