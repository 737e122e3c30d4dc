"""Many processes on several ranks write, kill and read outputs; nothing half-written is ever seen.

    output_stress.py [--seconds S] [--ranks N] [--writers N] [--seed N] [--kept DIR]

Writers change names of their own and names that all fight for, in children which they kill at
random. Readers on every rank check each file that they see against what its writer says is there.
In the end all ranks and the output directory must have the same files, and nothing may be left.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from object_files import names_of_objects
from rank_reader import in_children, wait_until
from stress_content import Board, Torn, version_of
from stress_reader import INPUTS, Reader, is_input, is_partial
from stress_writer import SLOTS, Writer, path_of

END_S = 60.0


# ---- a rank ----


def census(root: str) -> dict[str, list[Any]]:
    """Every output below a directory: type, mode, size, time and checksum; directories' type."""
    found: dict[str, list[Any]] = {}
    for folder, directories, files in os.walk(root):
        for name in directories + files:
            path = os.path.join(folder, name)
            relpath = os.path.relpath(path, root)
            facts = os.lstat(path)
            if is_input(relpath):
                continue
            if stat.S_ISDIR(facts.st_mode):
                found[relpath] = ["directory"]
            else:
                content = Path(path).read_bytes()
                digest = hashlib.sha256(content).hexdigest()
                found[relpath] = [facts.st_mode, facts.st_size, facts.st_mtime_ns, digest]
    return found


def unlike_board(found: dict[str, list[Any]], mount: str, board: Board, writers: int) -> list[str]:
    """Where, with all at rest, a rank has something else than what the board says."""
    wrong = []
    for writer in range(writers):
        for number in range(SLOTS):
            relpath, version = path_of(writer, number), board.look(writer * SLOTS + number).version
            there: int | str = 0
            if relpath in found:
                try:
                    there = version_of(Path(mount, relpath).read_bytes())
                except Torn as error:
                    there = f"torn: {error}"
            if there != version:
                wrong.append(f"at rest {relpath} is {there}, must be {version}")
    return wrong


class Rank:
    """The command of one rank."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self.spec = spec
        self.number = int(os.environ["FANSTORE_RANK"])
        self.world_size = int(os.environ["FANSTORE_WORLD_SIZE"])
        self.mount = os.environ["FANSTORE_MOUNT_PREFIX"]
        self.results = Path(spec["results"])
        self.board = Board(self.results / "board")

    def meet(self, name: str) -> None:
        """Waits until all ranks have come here."""
        (self.results / f"{name}.{self.number}").touch()
        wait_until(lambda: len(list(self.results.glob(f"{name}.*"))) == self.world_size, name)

    def say(self, name: str, value: Any) -> None:
        """Leaves JSON for the one who started all."""
        (self.results / f"{name}.json").write_text(json.dumps(value))

    def run(self) -> None:
        """Starts this rank's writers and its reader, and takes the census when all have ended."""
        writers, per_rank = self.spec["writers"], self.spec["writers"] // self.world_size
        mine = range(self.number * per_rank, (self.number + 1) * per_rank)
        seed = self.spec["seed"]
        made = [Writer(self.mount, self.board, n, seed, self.results) for n in mine]
        self.meet("made")
        deadline_s = time.monotonic() + self.spec["seconds"]

        def work(number: int) -> None:
            if number < per_rank:
                try:
                    made[number].work_until(deadline_s)
                finally:
                    writer = made[number]
                    done = {"outcomes": writer.outcomes, "wrong": writer.wrong, "log": writer.log}
                    self.say(f"writer-{mine[number]}", done)
                return
            reader = Reader(self.mount, self.board, writers, f"{seed} r{self.number}")
            reader.look_until(deadline_s)
            self.say(f"reader-{self.number}", {"outcomes": reader.seen, "wrong": reader.wrong})

        codes = [os.waitpid(pid, 0)[1] for pid in in_children(per_rank + 1, work)]
        self.meet("rest")
        found = census(self.mount)
        wrong = unlike_board(found, self.mount, self.board, writers)
        wrong += [f"rank {self.number}: a worker ended with {code}" for code in codes if code]
        self.say(f"rank-{self.number}", {"census": found, "wrong": wrong, **self.held(found)})
        self.meet("said")

    def held(self, found: dict[str, list[Any]]) -> dict[str, Any]:
        """What of outputs lies on this node, once what nobody needs is gone."""
        job, files = os.environ["FANSTORE_JOB_DIR"], sum(len(facts) > 1 for facts in found.values())
        deadline_s = time.monotonic() + 5
        while len(names_of_objects(job)) > files and time.monotonic() < deadline_s:
            time.sleep(0.05)
        time.sleep(0.5)
        return {"objects": names_of_objects(job)}


# ---- all of it ----


@dataclass
class Report:
    """What a run has come to."""

    wrong: list[str] = field(default_factory=list)
    outcomes: Counter[str] = field(default_factory=Counter)
    said: str = ""


def watch(output: Path, ended: threading.Event, wrong: list[str]) -> None:
    """Whatever is in the output directory is whole at every moment, but for what says that it is
    not."""
    while not ended.wait(0.2):
        for folder, directories, files in os.walk(output):
            directories[:] = [name for name in directories if not name.startswith(".fanstore-")]
            for name in files:
                with contextlib.suppress(FileNotFoundError):
                    if is_partial(name):
                        continue
                    content = Path(folder, name).read_bytes()
                    try:
                        version_of(content)
                    except Torn as error:
                        line = f"in the output directory: {folder}/{name}: {error}"
                        wrong += [line] if line not in wrong else []


def gather(results: Path, ranks: int, writers: int, output: Path) -> Report:
    """Compares what the ranks and the output directory have in the end."""
    report = Report()
    names = [f"writer-{n}" for n in range(writers)]
    names += [f"{kind}-{n}" for kind in ("reader", "rank") for n in range(ranks)]
    said: dict[str, Any] = {}
    for name in names:
        path = results / f"{name}.json"
        said[name] = json.loads(path.read_text()) if path.exists() else {"wrong": [f"no {name}"]}
        report.wrong += said[name]["wrong"]
        report.outcomes.update(said[name].get("outcomes", {}))
    if report.wrong:
        return report
    first = said["rank-0"]["census"]
    for rank in range(1, ranks):
        report.wrong += unlike(first, said[f"rank-{rank}"]["census"], f"rank {rank}")
    staged = census(str(output))
    staged.setdefault("input", ["directory"])
    report.wrong += unlike(first, staged, "the output directory")
    files = sum(len(facts) > 1 for facts in first.values())
    objects = [name for rank in range(ranks) for name in said[f"rank-{rank}"]["objects"]]
    if len(objects) != files:
        report.wrong.append(f"{len(objects)} objects for {files} files: {objects}")
    report.outcomes["files in the end"] = files
    return report


def unlike(one: dict[str, list[Any]], other: dict[str, list[Any]], what: str) -> list[str]:
    """Where two censuses differ."""
    names = sorted(one.keys() | other.keys())
    pairs = {name: (one.get(name), other.get(name)) for name in names}
    return [f"{what}: {name}: {a} and {b}" for name, (a, b) in pairs.items() if a != b]


def stress(path: Path, seconds: float, ranks: int = 4, writers: int = 8, seed: int = 1) -> Report:
    """One run in an empty directory."""
    from ranks import make_rank_stage

    stage = make_rank_stage(path, ranks)
    dataset = stage.dataset(stage.source(files=INPUTS))
    results, output = path / "results", path / "output"
    results.mkdir()
    Board.make(results / "board", writers * SLOTS)
    spec = {"results": str(results), "seconds": seconds, "seed": seed, "writers": writers}
    (results / "spec").write_text(json.dumps(spec))
    command = [sys.executable, __file__, "--rank", str(results / "spec")]
    options = ["--output-dir", str(output)]
    argv = stage.run_argv(ranks, [dataset], command, options)
    ended, torn = threading.Event(), list[str]()
    watcher = threading.Thread(target=watch, args=(output, ended, torn))
    watcher.start()
    try:
        with stage.launched(argv) as process:
            stdout, stderr = process.communicate(timeout=seconds + END_S)
    except subprocess.TimeoutExpired:
        return Report([f"it did not end in {seconds + END_S:.0f} s", *torn])
    finally:
        ended.set()
        watcher.join()
    report = gather(results, ranks, writers, output)
    report.said = stdout + stderr
    report.wrong += torn
    if process.returncode:
        report.wrong.append(f"the job ended with {process.returncode}: {stdout}{stderr}")
    try:
        stage.assert_clean()
    except AssertionError as error:
        report.wrong.append(f"left: {error}")
    return report


def main() -> int:
    if sys.argv[1:2] == ["--rank"]:
        Rank(json.loads(Path(sys.argv[2]).read_text())).run()
        return 0
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--writers", type=int, default=8, help="a multiple of --ranks")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kept", help="a new directory for all of it, not removed")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="output-stress-") as scratch:
        path = Path(options.kept or scratch)
        path.mkdir(exist_ok=True)
        report = stress(path, options.seconds, options.ranks, options.writers, options.seed)
    for name, count in sorted(report.outcomes.items()):
        print(f"{count:7,} {name}")
    print("\n".join(report.wrong or ["all was whole, and as its writers say"]))
    print(report.said, file=sys.stderr)
    return 1 if report.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
