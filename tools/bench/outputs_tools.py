"""Measures how long users' tools take to write under a mount, compared with the local file system:
tar, git, pip, one large file; and how fast stage-out brings what was written to the output
directory, beside `cp -r`.

A tool's time is its whole wall clock. What it wrote is staged out, and removed, before the next one
begins, so that none pays for another's; that wait is not counted.

Stage-out's time is from the end of a job's command to the moment at which the last file has its
name in the output directory, with its bytes on the disk; where some files were placed before, it is
that of all at the same rate. The note says how long `fanstore run` took, which then also removes
what the job has on the node. `cp -r`, which syncs nothing, and `cp -r && sync -f`, which promises
what stage-out does, copy trees that were written as freshly. A minute passes after each job: for so
long an ext4 without a journal gives no inode out again, and takes ten times as long to find one."""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import statistics
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from time import perf_counter_ns

from outside import PLAIN, job_environment, sides_of
from results import DIRECTORY, OURS, Goal, Result
from rows import KIB, MIB
from warm import Settings, in_turns, say

TOOL_RATIO, STAGE_RATIO = 1 / 1.3, 0.8
FILES, QUICK_FILES = 20_000, 500
MODULES, QUICK_MODULES = 2000, 200
LARGE, QUICK_LARGE = 2048, 256  # in MiB
REPETITIONS = 3
STAGE_OUT_LIMIT_S, LOOK_S, CALM_S = 600, 0.002, 65
COPIED, SYNCED = "cp -r", "cp -r, synced"

WRITE_LARGE = """
import os, sys
block = os.urandom(1 << 20)
with open(sys.argv[2], "wb", buffering=0) as file:
    for _ in range(int(sys.argv[1])):
        file.write(block)
"""
WRITE_TREE = """
import os, sys
top, files, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
block = os.urandom(min(size, 1 << 20))
for number in range(files):
    if number % 1000 == 0:
        os.makedirs(f"{top}/{number // 1000}")
    with open(f"{top}/{number // 1000}/{number}", "wb", buffering=0) as file:
        for _ in range(size // len(block)):
            file.write(block)
"""


def make_tree(work: Path, count: int) -> Path:
    """Makes files of 4 KiB, a hundred in each directory."""
    source = work / "packed"
    for number in range(count):
        path = source / f"{number // 100}" / f"{number}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.urandom(4096))
    return source


def archive(work: Path, files: int) -> list[str]:
    """Returns the command of tar, with an archive of small files."""
    source = make_tree(work, files)
    subprocess.run(["tar", "-C", work, "-cf", work / "packed.tar", source.name], check=True)
    shutil.rmtree(source)
    return ["sh", "-c", 'mkdir "$1" && tar -C "$1" -xf "$0"', str(work / "packed.tar")]


def repository(work: Path, files: int) -> list[str]:
    """Returns the command of git, which clones a repository of one commit as a pack, as over a
    network."""
    source = make_tree(work, files)
    git = ["git", "-C", str(source), "-c", "user.name=bench", "-c", "user.email=bench@localhost"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "-q", "-m", "all"], check=True)
    return ["git", "clone", "-q", f"file://{source}"]


def wheel(work: Path, modules: int) -> list[str]:
    """Returns the command of pip, with a wheel of `modules` modules, which it compiles by
    default."""
    about = "packed-1.dist-info"
    text = "".join(f"def function_{n}(value):\n    return value + {n}\n" for n in range(50))
    members = {f"packed/module_{n}.py": text for n in range(modules)}
    members["packed/__init__.py"] = ""
    members[f"{about}/METADATA"] = "Metadata-Version: 2.1\nName: packed\nVersion: 1\n"
    members[f"{about}/WHEEL"] = (
        "Wheel-Version: 1.0\nGenerator: bench\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    )
    members[f"{about}/RECORD"] = "".join(
        [*(record(name, text) for name, text in members.items()), f"{about}/RECORD,,\n"]
    )
    path = work / "packed-1-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as file:
        for name, text in members.items():
            file.writestr(name, text)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps"]
    return [*pip, "--disable-pip-version-check", str(path), "--target"]


def record(name: str, text: str) -> str:
    """Returns a line of a wheel's RECORD (PEP 427)."""
    digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=")
    return f"{name},sha256={digest.decode()},{len(text)}\n"


def large_file(work: Path, size_mib: int) -> list[str]:
    """Returns a command that writes a file in large pieces, as torch.save does."""
    return [sys.executable, "-c", WRITE_LARGE, str(size_mib)]


@dataclass(frozen=True)
class Tool:
    """A program. sizes: how much it writes in full and with --quick, as the title says. prepare:
    makes the files that it needs, and returns its command, to which the place is added."""

    title: str
    prepare: Callable[[Path, int], list[str]]
    sizes: tuple[int, int]
    needs: str = ""


SMALL = (FILES, QUICK_FILES)
SOURCES = (MODULES, QUICK_MODULES)
TOOLS = {
    "outputs-untar": Tool("output: tar -x, {:,} files of 4 KiB", archive, SMALL, "tar"),
    "outputs-clone": Tool("output: git clone, {:,} files of 4 KiB", repository, SOURCES, "git"),
    "outputs-pip": Tool("output: pip install --target, {:,} modules", wheel, SOURCES),
    "outputs-large": Tool("output: one file of {:,} MiB", large_file, (LARGE, QUICK_LARGE)),
}


@dataclass(frozen=True)
class Staged:
    """A workload for timing stage-out: this many files of this size, in full and with --quick."""

    title: str
    files: tuple[int, int]
    file_bytes: tuple[int, int]


STAGED = {
    "outputs-stage-small": Staged(
        "stage-out: {:,} files of 4 KiB", (FILES, QUICK_FILES), (4 * KIB, 4 * KIB)
    ),
    "outputs-stage-large": Staged(
        "stage-out: one file of {:,} MiB", (1, 1), (LARGE * MIB, QUICK_LARGE * MIB)
    ),
}


KEYS = [*TOOLS, *STAGED]


class Job:
    """A running job, and a plain directory beside it on the same disk."""

    def __init__(self, work: Path, environment: Mapping[str, str]) -> None:
        self._out = work / "out"
        self._under = environment
        self._plainly = sides_of(environment)[PLAIN]
        self._plain = work / "plain"
        self._plain.mkdir()
        self._mount = environment["FANSTORE_MOUNT_PREFIX"]
        self._marks = 0

    def run(self, name: str, command: Sequence[str]) -> None:
        """Runs a command on one of the sides."""
        environment = self._under if name == OURS else self._plainly
        subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)

    def place(self, name: str, what: str) -> str:
        """Returns a path with that name on one of the sides."""
        return f"{self._mount if name == OURS else self._plain}/{what}"

    def staged_out(self) -> None:
        """Waits until all outputs are in the output directory, where files appear in the order in
        which they were finished. Raises TimeoutError."""
        self._marks += 1
        mark = f"mark-{self._marks}"
        self.run(OURS, ["sh", "-c", ': >"$0"', self.place(OURS, mark)])
        when_there(self._out / mark)

    def remove(self, name: str, what: str) -> None:
        """Removes `what` on one side, and in the output directory."""
        self.run(name, ["rm", "-rf", self.place(name, what)])
        self.staged_out()


def row_of(key: str, title: str, times: Mapping[str, list[float]], goal: Goal) -> Result:
    """Returns the result of a row from the times that it took."""
    found = Result.of("outputs", key, title, "run", times, [goal])
    return replace(found, note=f"{1 / found.ratio(goal.than):.2f} times {goal.than}'s time")


def measure_tool(key: str, work: Path, job: Job, settings: Settings) -> Result:
    """Measures a tool on both sides in turn. The first turn only warms up."""
    tool = TOOLS[key]
    folder = work / key
    folder.mkdir()
    size = tool.sizes[settings.quick]
    command = tool.prepare(folder, size)

    def run(name: str) -> float:
        os.sync()  # otherwise this tool would pay for what earlier ones wrote
        start = perf_counter_ns()
        job.run(name, [*command, job.place(name, key)])
        taken = perf_counter_ns() - start
        job.staged_out()
        job.remove(name, key)
        return taken

    sides = {name: partial(run, name) for name in (DIRECTORY, OURS)}
    times = in_turns(sides, min(settings.repetitions, REPETITIONS), 1)
    shutil.rmtree(folder)
    return row_of(key, tool.title.format(size), times, Goal(DIRECTORY, TOOL_RATIO))


def measure_staged(key: str, work: Path, settings: Settings) -> Result:
    """Measures the end of a job that wrote some files, compared with cp of the same files, as
    described at the top."""
    staged = STAGED[key]
    files, size = staged.files[settings.quick], staged.file_bytes[settings.quick]
    write = [sys.executable, "-c", WRITE_TREE]
    amount = [str(files), str(size)]
    sides = {COPIED: 'cp -r "$0" "$1"', SYNCED: 'cp -r "$0" "$1" && sync -f "$1"'}
    times: dict[str, list[float]] = {COPIED: [], SYNCED: [], OURS: []}
    whole: list[float] = []
    for turn in range(min(settings.repetitions, REPETITIONS)):
        folder = work / f"{key}-{turn}"
        folder.mkdir()
        for name, script in sides.items():
            source = str(folder / f"written, {name}")
            subprocess.run([*write, source, *amount], check=True)
            start = perf_counter_ns()
            subprocess.run(["sh", "-c", script, source, str(folder / name)], check=True)
            times[name].append(perf_counter_ns() - start)
            os.sync()
        with ThreadPoolExecutor(1) as pool:
            with job_environment(folder, STAGE_OUT_LIMIT_S) as environment:
                place = f"{environment['FANSTORE_MOUNT_PREFIX']}/{key}"
                subprocess.run([*write, place, *amount], check=True, env=environment)
                staged_out = folder / "out" / key
                before = count_files(staged_out)
                last = staged_out / f"{(files - 1) // 1000}" / f"{files - 1}"
                start = perf_counter_ns()
                placed = pool.submit(when_there, last)
            whole.append(perf_counter_ns() - start)
        if count_files(staged_out) != files:
            raise SystemExit(f"bench: {key}: not all files were staged out")
        times[OURS].append((placed.result() - start) * files / max(1, files - before))
        if files == 1:
            shutil.rmtree(folder)
        elif not settings.quick:
            time.sleep(CALM_S)
    title = staged.title.format(files if files > 1 else size // MIB)
    result = row_of(key, title, times, Goal(COPIED, STAGE_RATIO))
    more = result.times_ns[OURS] / result.times_ns[SYNCED]
    end_s = statistics.median(whole) / 1e9
    note = f"{result.note}, {more:.2f} times {SYNCED}; fanstore run ended after {end_s:.2f} s"
    return replace(result, note=note)


def when_there(path: Path) -> int:
    """Waits until a file exists. Returns the time, by perf_counter_ns. Raises TimeoutError."""
    until = time.monotonic() + STAGE_OUT_LIMIT_S
    while not path.exists():
        if time.monotonic() > until:
            raise TimeoutError(f"stage-out took more than {STAGE_OUT_LIMIT_S} s")
        time.sleep(LOOK_S)
    return perf_counter_ns()


def count_files(folder: Path) -> int:
    """Returns how many files are below a directory; 0 if it does not exist."""
    return sum(len(names) for _, _, names in os.walk(folder))


def measure(work: Path, wanted: Sequence[str], settings: Settings) -> Iterator[Result | str]:
    """Yields the rows of `wanted`, and the reasons why others are missing."""
    tools = [key for key in wanted if key in TOOLS]
    if tools:
        with job_environment(work, STAGE_OUT_LIMIT_S) as environment:
            job = Job(work, environment)
            for key in tools:
                needs = TOOLS[key].needs
                if needs and shutil.which(needs) is None:
                    yield f"{key}: no {needs}"
                    continue
                say(key)
                yield measure_tool(key, work, job, settings)
    for key in wanted:
        if key in STAGED:
            say(key)
            yield measure_staged(key, work, settings)
