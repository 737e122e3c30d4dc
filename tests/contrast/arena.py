"""Where cases run: one plain tree, datasets prepared from it, and a daemon serving each.

FANSTORE_CONTRAST_SELF=1 puts plain copies where the mounts would be: the suite then compares the
tree with itself, which shows a case that cannot hold between any two trees.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tree import build_tree

SELF = os.environ.get("FANSTORE_CONTRAST_SELF") == "1"
NOBODY = 65534
# PYTHONPATH and the two after it: tools/sanitized_contrast.py
KEPT = ("USER", "LOGNAME", "TMPDIR", "PYTHONPATH", "ASAN_OPTIONS", "UBSAN_OPTIONS")

# Each prefix is as long as "plain", so that paths of both sides have one length.
# "over" lies over a copy of its own originals; "nobody" is served by a daemon of that user.
PREFIXES = {"store": "mount", "lz4": "mtlz4", "zstd": "mtzst", "over": "mtown", "nobody": "mtusr"}
KINDS = {"over": "store", "nobody": "store"}
USERS = {"nobody": NOBODY}


def as_user(user: int | None) -> list[str]:
    """What goes before a command to run it as another user."""
    if user is None:
        return []
    return ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]


def fanstore_command() -> list[str]:
    """`fanstore` without its console script: pip makes a shell script of that in a folder with a
    space, which sorts the environment anew."""
    return [sys.executable, "-m", "fanstore"]


@dataclass(frozen=True)
class Side:
    """One of the two places a case runs in. `env` is whole; root is $T, outside is $O.

    `real`: the files lie there, no shim is between.
    """

    name: str
    real: bool
    root: Path
    outside: Path
    scratch: Path
    env: dict[str, str]


class Arena:
    """Builds lazily: a dataset and its daemon appear when the first case asks for them."""

    def __init__(self) -> None:
        self.base = Path(tempfile.mkdtemp(prefix="fanstore-contrast-", dir="/tmp"))
        self.base.chmod(0o1777)
        (self.base / "home").mkdir()
        build_tree(self.base / "plain")
        self._count = itertools.count()
        self._environments: dict[str, dict[str, str]] = {}
        self._jobs: dict[str, str] = {}
        self.digests: dict[str, str] = {}
        self.plain = self._side("plain", self._base_environment())

    def close(self) -> None:
        """Stops the daemons and removes everything."""
        try:
            for codec, job in self._jobs.items():
                self.fanstore("stop", "--job", job, *self._local(codec), user=USERS.get(codec))
        finally:
            shutil.rmtree(self.base, ignore_errors=True)

    def prefix(self, codec: str) -> Path:
        return self.base / PREFIXES[codec]

    def mounted(self, codec: str) -> Side:
        """The side served by FanStore from the dataset called `codec`."""
        if codec not in self._environments:
            self._environments[codec] = self._start(codec)
        return self._side(PREFIXES[codec], self._environments[codec])

    def scratch(self, side: Side) -> Path:
        """A new empty directory; its path has the same length on both sides."""
        path = side.scratch / f"{next(self._count):06d}"
        path.mkdir(mode=0o777)
        path.chmod(0o777)
        return path

    def fanstore(self, *arguments: str, user: int | None = None) -> bytes:
        """What `fanstore` prints; anything but success is an error."""
        done = subprocess.run(
            [*as_user(user), *fanstore_command(), *arguments],
            capture_output=True,
            timeout=120,
            env=self._base_environment(),
            check=False,
        )
        if done.returncode != 0:
            raise RuntimeError(f"{done.args}: {done.returncode}: {done.stderr.decode()}")
        return done.stdout

    def counters(self, codec: str) -> dict[str, int]:
        """What the daemon of `codec` counted."""
        text = self.fanstore("status", "--job", self._jobs[codec], *self._local(codec), "--json")
        return json.loads(text)["counters"]

    def dataset(self, codec: str) -> Path:
        """The dataset directory, prepared once."""
        kind = KINDS.get(codec, codec)
        path = self.base / f"dataset-{kind}"
        if not path.exists():
            plain = str(self.base / "plain")
            self.fanstore("prepare", plain, str(path), "--codec", kind, "--partitions", "3")
            self.digests[kind] = self.digest(kind)
        return path

    def digest(self, kind: str) -> str:
        """A checksum over every file of a dataset."""
        total = hashlib.sha256()
        for path in sorted((self.base / f"dataset-{kind}").iterdir()):
            total.update(path.name.encode() + path.read_bytes())
        return total.hexdigest()

    def _start(self, codec: str) -> dict[str, str]:
        prefix = self.prefix(codec)
        if SELF or codec == "over":
            subprocess.run(["cp", "-a", self.base / "plain", prefix], check=True)
        if SELF:
            return self._base_environment()
        user, local = USERS.get(codec), self._local(codec)
        dataset = ["--dataset", str(self.dataset(codec)), "--mount", str(prefix)]
        job = json.loads(self.fanstore("start", *dataset, *local, "--json", user=user))
        self._jobs[codec] = job["job_id"]
        listed = self.fanstore("exec", "--job", job["job_id"], *local, "--", "env", "-0", user=user)
        pairs = (entry.partition(b"=") for entry in listed.split(b"\0") if entry)
        return {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs}

    def _local(self, codec: str) -> tuple[str, str]:
        """The option for the job's local directory, which is made."""
        path = self.base / f"local-{codec}"
        if not path.exists():
            path.mkdir(mode=0o700)
            os.chown(path, USERS.get(codec, -1), -1)
        return "--local-dir", str(path)

    def _base_environment(self) -> dict[str, str]:
        keep = {k: v for k, v in os.environ.items() if k in KEPT}
        path = os.pathsep.join(
            [str(Path(sys.executable).parent), "/usr/local/bin", "/usr/bin", "/bin"]
        )
        fixed = {"PATH": path, "LC_ALL": "C.UTF-8", "TZ": "UTC", "PYTHONDONTWRITEBYTECODE": "1"}
        more = {"HOME": str(self.base / "home"), "PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1"}
        return {**keep, **fixed, **more}

    def _side(self, name: str, env: dict[str, str]) -> Side:
        side = Side(
            name,
            SELF or name == "plain",
            self.base / name,
            self.base / f"o_{name}",
            self.base / f"w_{name}",
            env,
        )
        if not side.scratch.exists():
            side.scratch.mkdir()
            self._make_outside(side)
        return side

    @staticmethod
    def _make_outside(side: Side) -> None:
        """Symbolic links outside the tree that lead into it."""
        side.outside.mkdir()
        for name, target in {
            "tree": side.root,
            "dir": side.root / "text",
            "file": side.root / "text" / "hello.txt",
            "missing": side.root / "no" / "such",
            "relative": Path("..") / side.name / "text",
        }.items():
            os.symlink(target, side.outside / name)
