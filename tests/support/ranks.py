"""What the tests of several ranks share: a place for each rank, and runs of them all."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mpiexec import MPIEXEC
from serving import LIMIT_S, Stage, process_name, runs, wait_for

READER = Path(__file__).with_name("rank_reader.py")
FANSTORE = (sys.executable, "-m", "fanstore")

_MARK = "RANKS_STAGE"
_SHM = "/dev/shm/"


@dataclass
class RankStage(Stage):
    """A stage with a local directory and a prefix for each rank; all that runs on it is marked.
    What is on another rank stays there, unless a test asks for --replicas auto, and comes over MPI
    as from another node, unless it asks for neighbours."""

    ranks: int = 8

    @property
    def env(self) -> dict[str, str]:
        kept = {k: v for k, v in super().env.items() if k != "FANSTORE_LOCAL_DIR"}
        return {
            **kept,
            _MARK: str(self.path),
            "FANSTORE_REPLICAS": "1",
            "FANSTORE_NEIGHBOURS": "off",
        }

    def local_of(self, rank: int) -> Path:
        """The local directory of a rank."""
        return self.path / f"r{rank}"

    def mount_of(self, rank: int) -> Path:
        """The prefix of a rank; not there unless a job runs."""
        return self.path / f"m{rank}"

    def where(self, *datasets: Path) -> list[str]:
        """The options that give each rank a place of its own."""
        options = ["--local-dir", str(self.path / "r{rank}")]
        for number, dataset in enumerate(datasets):
            mount = self.path / ("m{rank}" + "-2" * number)
            options += ["--dataset", str(dataset), "--mount", str(mount)]
        return options

    def mpiexec(self, world_size: int, *command: str) -> list[str]:
        """`command` on every rank."""
        assert MPIEXEC is not None
        return [MPIEXEC, "-n", str(world_size), *command]

    def run_argv(
        self,
        world_size: int,
        datasets: Sequence[Path],
        command: Sequence[str],
        options: Sequence[str] = (),
    ) -> list[str]:
        """mpiexec of `fanstore run` with `datasets` at each rank's own prefixes."""
        job = [*FANSTORE, "run", *self.where(*datasets), *options, "--", *command]
        return self.mpiexec(world_size, *job)

    def finished(
        self, argv: Sequence[str], code: int | None = 0, **env: str
    ) -> subprocess.CompletedProcess[str]:
        """Runs `argv` to its end and compares the exit code, unless that is None."""
        with self.launched(argv, **env) as process:
            stdout, stderr = process.communicate(timeout=LIMIT_S)
        assert code is None or process.returncode == code, f"{process.returncode}: {stdout}{stderr}"
        return subprocess.CompletedProcess(argv, process.returncode, stdout, stderr)

    def run_ranks(
        self,
        world_size: int,
        dataset: Path,
        *command: str,
        options: Sequence[str] = (),
        code: int | None = 0,
        **env: str,
    ) -> subprocess.CompletedProcess[str]:
        """`fanstore run` of `command` on all ranks, to its end."""
        argv = self.run_argv(world_size, [dataset], command, options)
        return self.finished(argv, code, **env)

    @contextlib.contextmanager
    def launched(self, argv: Sequence[str], **env: str) -> Iterator[subprocess.Popen[str]]:
        """A program while it runs. Whatever of it still does at the end is killed."""
        with subprocess.Popen(
            argv,
            env={**self.env, **env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as process:
            try:
                yield process
            finally:
                if sys.exc_info()[0] is not None:
                    for pid in self.processes():
                        with contextlib.suppress(ProcessLookupError):
                            os.kill(pid, signal.SIGKILL)

    def processes(self, name: str = "") -> list[int]:
        """The processes that run on this stage, by the mark in their environment."""
        mark = f"{_MARK}={self.path}".encode()
        found = []
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if entry.name.isdigit() and mark in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
        return [pid for pid in found if runs(pid) and name in process_name(pid)]

    def leftovers(self) -> list[str]:
        """What is in local directories, prefixes, and processes. The job's end is waited for."""
        found = [str(p) for r in range(self.ranks) for p in self.local_of(r).rglob("*")]
        found += [str(p) for p in self.path.glob("m[0-9]*")]
        return found + [f"{pid} {process_name(pid)}" for pid in self.processes()]

    def assert_clean(self, shm: Sequence[str] = ()) -> None:
        """Nothing is left, nor any of MPI's files `shm`. A launcher that kills wrappers
        does not know daemons: these end after it, and if one of them died, the others wait for it
        until it counts as lost (15 s, and longer on busy cores)."""
        wait_for(lambda: not self.processes(), f"the end of {self.leftovers()}")
        assert self.leftovers() == []
        assert [path for path in shm if os.path.exists(path)] == []

    def tasks(
        self,
        world_size: int,
        datasets: Sequence[Path],
        tasks: dict[str, Any],
        options: Sequence[str] = (),
        **spec: Any,
    ) -> list[dict[str, Any]]:
        """What rank_reader says of `tasks` on each rank; nothing may be left afterwards."""
        path, argv = self.reader(tasks, **spec)
        self.finished(self.run_argv(world_size, datasets, argv, options))
        said = read_results(path, world_size)
        self.assert_clean([name for rank in said for name in rank["shm"]])
        return said

    def reader(self, tasks: dict[str, Any], **spec: Any) -> tuple[Path, list[str]]:
        """A specification for rank_reader, and how to run that."""
        results = Path(tempfile.mkdtemp(prefix="results-", dir=self.path))
        path = results / "spec.json"
        path.write_text(json.dumps({"results": str(results), "tasks": tasks, **spec}))
        return path, [sys.executable, str(READER), str(path)]


def make_rank_stage(path: Path, ranks: int = 8) -> RankStage:
    """A stage for so many ranks in a directory."""
    stage = RankStage(path, ranks=ranks)
    for rank in range(ranks):
        stage.local_of(rank).mkdir()
    return stage


def read_results(spec: Path, world_size: int) -> list[dict[str, Any]]:
    """What rank_reader said, by rank."""
    paths = [spec.parent / f"{rank}.json" for rank in range(world_size)]
    return [json.loads(path.read_text()) for path in paths]


def assert_all_ok(said: Sequence[dict[str, Any]]) -> None:
    """Every task on every rank went well."""
    wrong = [
        f"rank {rank}: {task}: {outcome}"
        for rank, each in enumerate(said)
        for task, outcome in each["outcomes"].items()
        if outcome != "ok"
    ]
    assert not wrong, "\n".join(wrong)


def shm_files(pids: Sequence[int]) -> list[str]:
    """The files in /dev/shm that processes have mapped, by name."""
    found = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            lines = Path(f"/proc/{pid}/maps").read_text(errors="surrogateescape").splitlines()
            found |= {line.split(maxsplit=5)[5] for line in lines if _SHM in line}
    return sorted(path for path in found if not path.endswith("(deleted)"))


def total(said: Sequence[dict[str, Any]], label: str, section: str, name: str) -> int:
    """A figure of `status`, noted under `label`, summed over the ranks."""
    return sum(int(rank["figures"][label][section][name]) for rank in said)
