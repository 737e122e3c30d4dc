"""Several ranks of one machine under mpiexec, made so that a test can harm any part of them.

Each rank runs below a shell that outlives it, because Hydra kills all ranks of a host when one of
its own children ends by a signal; on a cluster that host has one rank only. The shell also keeps
apart what mpiexec mixes, or drops once a rank is lost: output, errors and exit codes.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import inprocess
from mpiexec import KEEP, MPIEXEC, RANK
from serving import (
    Stage,
    children,
    daemon_of,
    is_probe,
    make_stage,
    runs,
    started,
    wait_for,
)

from fanstore.dataset import open_dataset

LIMIT_S = 40.0
LEFT_S = 10.0

# $0: where the run keeps its notes.
_RANK = f"""
trap : HUP INT TERM USR1 USR2
sh -c 'echo $$ >"$0/pid.{RANK}"; exec "$@" >"$0/out.{RANK}" 2>"$0/err.{RANK}"' "$0" "$@"
code=$?
echo $code >"$0/code.{RANK}"
exit $code
"""

# As users have it: Hydra sees the wrapper itself.
BARE_RANK = f"""
echo $$ >"$0/pid.{RANK}"
exec "$@" >"$0/out.{RANK}" 2>"$0/err.{RANK}"
"""

# Reads every file, or those named in the step's file, when told to; answers with checksums, or
# errno for what cannot be read. A step whose name begins with "churn" is read again and again until
# "stop" is there, by three processes, and must be right each time.
_READER = """
import hashlib, json, os, sys, time
here, steps = sys.argv[1], sys.argv[2:]
root, rank = os.environ["FANSTORE_MOUNT_PREFIX"], os.environ["FANSTORE_RANK"]

def read(name):
    try:
        with open(os.path.join(root, name), "rb") as stream:
            return hashlib.sha256(stream.read()).hexdigest()
    except OSError as error:
        return error.errno

def write(name, value):
    with open(f"{here}/{name}.part", "w") as stream:
        json.dump(value, stream)
    os.rename(f"{here}/{name}.part", f"{here}/{name}")

def churn(names):
    wrong, rounds, first = [], 0, {name: read(name) for name in names}
    write(f"churning-{rank}", first)
    workers = [os.fork() for _ in range(2)]
    while rounds == 0 or not os.path.exists(f"{here}/stop"):
        wrong += [n for n in names if read(n) != first[n]]
        rounds += 1
    if 0 in workers:
        os._exit(len(wrong) > 0)
    codes = [os.waitpid(worker, 0)[1] for worker in workers]
    return {"wrong": wrong, "rounds": rounds, "codes": codes}

for step in steps:
    while not os.path.exists(f"{here}/{step}"):
        time.sleep(0.005)
    with open(f"{here}/{step}") as stream:
        names = json.load(stream)[rank]
    begun = time.monotonic()
    answer = churn(names) if step.startswith("churn") else {name: read(name) for name in names}
    write(f"{step}-{rank}", {"answer": answer, "took_s": time.monotonic() - begun})
"""


def command_of(wrapper: int) -> int:
    """The id of a wrapper's command once it is that, 0 before."""
    for pid in set(children(wrapper)) - {daemon_of(wrapper)}:
        with contextlib.suppress(OSError):
            started = b"FANSTORE_JOB_DIR=" in Path(f"/proc/{pid}/environ").read_bytes()
            if started and not is_probe(pid):
                return pid
    return 0


def reader(*steps: str) -> list[str]:
    """A command that reads what `RankRun.step` tells it to, then ends with code 0."""
    return ["READER", *steps]


class Ranks:
    """A directory for one test: a dataset, and local directories and mounts of several ranks."""

    def __init__(self, stage: Stage, dataset: Path, files: Mapping[str, bytes]) -> None:
        self.stage = stage
        self.dataset = dataset
        self.files = dict(files)
        self.whole = {n: hashlib.sha256(data).hexdigest() for n, data in files.items()}

    def local(self, rank: int) -> Path:
        """The local directory of a rank."""
        return self.stage.local / str(rank)

    def mount(self, rank: int) -> Path:
        """Its mount prefix."""
        return self.stage.path / f"mount{rank}"

    def owned(self, rank: int, size: int) -> set[str]:
        """The files whose packs lie on a rank of `size`, with one replica."""
        with open_dataset(self.dataset) as dataset:
            return {
                os.fsdecode(dataset.relpath(record))
                for pack in range(rank, dataset.pack_count, size)
                for record in dataset.records_of_pack(pack)
            }

    def status(self, rank: int) -> dict[str, Any]:
        """What a rank's daemon says of itself now."""
        done = inprocess.call("status", "--json", "--local-dir", self.local(rank))
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer

    def tidy(self, rank: int) -> None:
        """Runs a job on the node of a rank alone: it removes whatever was left there."""
        where = ["--dataset", str(self.dataset), "--mount", str(self.mount(rank))]
        self.stage.call("run", *where, "--", "true", FANSTORE_LOCAL_DIR=str(self.local(rank)))

    @contextlib.contextmanager
    def running(
        self,
        size: int,
        command: list[str],
        *options: str,
        launcher: Iterable[str] = KEEP,
        before: Iterable[str] = (),
        rank_shell: str = _RANK,
        **env: str,
    ) -> Iterator[RankRun]:
        """A run of `command` on `size` ranks; whatever is left of it is killed at the end.

        launcher: options of mpiexec; before: what starts mpiexec.
        """
        for rank in range(size):
            self.local(rank).mkdir(exist_ok=True)
        notes = self.stage.path / f"notes{len(list(self.stage.path.glob('notes*')))}"
        notes.mkdir()
        if command[0] == "READER":
            command = [sys.executable, "-c", _READER, str(notes), *command[1:]]
        fanstore = [sys.executable, "-m", "fanstore", "run", "--dataset", str(self.dataset)]
        where = ["--mount", str(self.stage.path / "mount{rank}"), *options, "--"]
        quick = {"FANSTORE_DEADLINE_S": "0.5", "FANSTORE_PEER_WAIT_S": "3"}
        # What is read again is fetched again, and over MPI.
        quick |= {"FANSTORE_CACHE_POLICY": "close", "FANSTORE_REPLICAS": "1"}
        quick |= {"FANSTORE_NEIGHBOURS": "off"}
        local = {"FANSTORE_LOCAL_DIR": str(self.stage.local / "{rank}")}
        assert MPIEXEC is not None
        mpiexec = [*before, MPIEXEC, *launcher, "-n", str(size), "sh", "-c", rank_shell, str(notes)]
        with subprocess.Popen(
            [*mpiexec, *fanstore, *where, *command],
            env={**self.stage.env, **quick, **local, **env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process:
            run = RankRun(self, size, notes, process)
            try:
                yield run
            finally:
                run.kill_all()


class RankRun:
    """One run, while it lasts and afterwards."""

    def __init__(
        self, ranks: Ranks, size: int, notes: Path, process: subprocess.Popen[str]
    ) -> None:
        self.ranks = ranks
        self.size = size
        self.notes = notes
        self.process = process
        self._seen: dict[int, str] = {}  # and when they were started
        self._shm: set[str] = set()

    def wrapper(self, rank: int) -> int:
        """The id of a rank's wrapper."""
        note = self.notes / f"pid.{rank}"
        wait_for(lambda: note.exists() and note.read_text().strip(), f"rank {rank} to begin")
        return int(note.read_text())

    def daemon(self, rank: int) -> int:
        """The id of a rank's daemon."""
        wrapper = self.wrapper(rank)
        wait_for(lambda: daemon_of(wrapper), f"the daemon of rank {rank}")
        return daemon_of(wrapper)

    def command(self, rank: int) -> int:
        """The id of a rank's command, once it runs."""
        wrapper = self.wrapper(rank)
        found = [0]

        def look() -> int:
            found[0] = command_of(wrapper)  # a command that executes another has none for a moment
            return found[0]

        wait_for(look, f"the command of rank {rank}", LIMIT_S)
        return found[0]

    def forget_shared_memory(self) -> None:
        """A rank that dies in the start of MPI leaves what that has in /dev/shm."""
        self._shm.clear()

    def note_processes(self) -> None:
        """Remembers what runs now, and what MPI has in /dev/shm, for `check_nothing_left`."""
        for rank in range(self.size):
            wrapper = self.wrapper(rank)
            daemon = daemon_of(wrapper)
            self._note(wrapper, daemon, command_of(wrapper))
            with contextlib.suppress(OSError):
                lines = Path(f"/proc/{daemon}/maps").read_text(errors="replace").splitlines()
                self._shm |= {line.split(maxsplit=5)[5] for line in lines if "/dev/shm/" in line}

    def _note(self, *pids: int) -> None:
        for pid in pids:
            if pid != 0:
                self._seen.setdefault(pid, started(pid))

    def still_running(self) -> bool:
        """Whether anything runs that was noted."""
        return bool(self._left_running())

    def _left_running(self) -> list[int]:
        """What was noted and runs still; numbers are used again within minutes here."""
        return [
            pid for pid, start in sorted(self._seen.items()) if runs(pid) and started(pid) == start
        ]

    def kill(self, rank: int, *what: str, number: int = signal.SIGKILL) -> None:
        """Sends a signal to the "daemon", the "wrapper" or the "command" of a rank, at once."""
        self.note_processes()
        pids = [{"daemon": self.daemon, "wrapper": self.wrapper, "command": self.command}[w](rank)
                for w in what]  # fmt: skip
        for pid in pids:
            os.kill(pid, number)

    def tell(self, step: str, names: Mapping[int, Iterable[str]] | None = None) -> None:
        """Starts a step on all ranks: by rank the files to read, by default all."""
        lists = {
            str(rank): sorted(self.ranks.files if names is None else names.get(rank, ()))
            for rank in range(self.size)
        }
        part = self.notes / f"{step}.part"
        part.write_text(json.dumps(lists))
        part.rename(self.notes / step)

    def answer(self, step: str, rank: int) -> Any:
        """What a rank found in a step."""
        note = self.notes / f"{step}-{rank}"
        wait_for(
            lambda: note.exists() or self.process.poll() is not None,
            f"step {step} of rank {rank}", LIMIT_S,
        )  # fmt: skip
        assert note.exists(), self.said()
        return json.loads(note.read_text())["answer"]

    def took_s(self, step: str, rank: int) -> float:
        """How long a rank took for it."""
        return float(json.loads((self.notes / f"{step}-{rank}").read_text())["took_s"])

    def step(
        self,
        step: str,
        ranks: Iterable[int] | None = None,
        names: Mapping[int, Iterable[str]] | None = None,
    ) -> list[dict[str, Any]]:
        """Starts a step and waits for what `ranks` (by default all) find: checksums or errno."""
        self.tell(step, names)
        found = [self.answer(step, rank) for rank in (range(self.size) if ranks is None else ranks)]
        self.note_processes()
        return found

    def end(self, limit_s: float = LIMIT_S) -> list[int | None]:
        """Waits for mpiexec: the exit code of each rank, None for one that was not left to say."""
        deadline_s = time.monotonic() + limit_s
        while self.process.poll() is None:
            assert time.monotonic() < deadline_s, f"mpiexec has not ended\n{self.said()}"
            time.sleep(0.01)
        notes = [self.notes / f"code.{rank}" for rank in range(self.size)]
        return [int(note.read_text()) if note.exists() else None for note in notes]

    def out(self, rank: int) -> str:
        """What a rank has written to stdout."""
        return self._text(f"out.{rank}")

    def err(self, rank: int) -> str:
        """What a rank has written to stderr."""
        return self._text(f"err.{rank}")

    def said(self) -> str:
        """All of it, for a message."""
        return "\n".join(f"[{r}] {self.out(r)}{self.err(r)}" for r in range(self.size))

    def _text(self, name: str) -> str:
        note = self.notes / name
        return note.read_text(errors="replace") if note.exists() else ""

    def left(self, killed: Iterable[int] = ()) -> list[str]:
        """What is left of the run: processes, MPI's memory, files but those of `killed` ranks."""
        found = [str(pid) for pid in self._left_running()]
        found += sorted(path for path in self._shm if os.path.exists(path))
        for rank in set(range(self.size)) - set(killed):
            for at, below, files in os.walk(self.ranks.local(rank)):
                found += [os.path.join(at, name) for name in below + files]
            found += [str(path) for path in [self.ranks.mount(rank)] if path.exists()]
        return found

    def check_nothing_left(self, killed: Iterable[int] = ()) -> None:
        """Fails naming what is left after a while: daemons may outlive mpiexec a little. Ranks of
        which nothing was left to tidy up (`killed`) leave files, which the next run removes."""
        deadline_s = time.monotonic() + LEFT_S
        while (left := self.left(killed)) and time.monotonic() < deadline_s:
            time.sleep(0.02)
        assert left == [], f"{left}\n{self.said()}"
        if killed:
            for rank in killed:
                self.ranks.tidy(rank)
            assert self.left() == [], self.said()

    def kill_all(self) -> None:
        """Ends what this run started and nothing else."""
        if self.process.poll() is None:
            for rank in range(self.size):
                note = self.notes / f"pid.{rank}"
                with contextlib.suppress(OSError, ValueError):
                    wrapper = int(note.read_text())
                    self._note(wrapper, daemon_of(wrapper), command_of(wrapper))
        for pid in self._left_running():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if self.process.poll() is None:
            self.process.kill()


def make_ranks(path: Path, files: Mapping[str, bytes], *options: str) -> Ranks:
    """A dataset of `files` in an empty directory."""
    stage = make_stage(path)
    source = stage.source(files=dict(files))
    inprocess.call("prepare", "--quiet", source, stage.path / "data", *options)
    return Ranks(stage, stage.path / "data", files)


def with_errno(whole: Mapping[str, str], names: Iterable[str], number: int = errno.EIO) -> Any:
    """What a rank finds that can read all but `names`."""
    return {**whole, **dict.fromkeys(names, number)}
