"""Every call that takes a path, on every kind of name: the same as in a plain directory, also where
another rank has the directory or the file."""

from __future__ import annotations

import json
import os
import shlex
import stat
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from fault_tools import RankRun, Ranks, make_ranks
from mpiexec import needs_ranks
from output_steps import Steps
from serving import make_stage
from soak import sampled

from fanstore.outputs.model.entries import keeper_of

MATRIX = Path(__file__).parents[1] / "support" / "path_matrix.py"
# Of two ranks: where, who makes what is there, and who makes the calls. The names in a directory of
# the dataset are kept by a rank that follows from its path, those in another by its maker's, 1.
PLACES = {
    "input_kept_there_made_there": ("in-a", 1, 0),
    "input_kept_there_made_here": ("in-b", 0, 0),
    "input_kept_here_made_there": ("in-c", 1, 0),
    "made_there_by_there": ("made-a", 1, 0),
    "made_there_by_here": ("made-b", 0, 0),
}
KEPT = {"in-a": 1, "in-b": 1, "in-c": 0}


def input_kept_by(name: str, rank: int) -> str:
    """A name of a directory of the dataset whose names a rank of two keeps."""
    names = (f"{name}{n}" for n in range(100))
    return next(each for each in names if keeper_of(0, each.encode(), 2) == rank)


INPUTS = {name: input_kept_by(name, rank) for name, rank in KEPT.items()}


def expected(place: str, case: str, plain: object) -> object:
    """The result of a case in a job of several ranks, as docs/outputs.md says."""
    call, _, name = case.partition(" ")
    there = PLACES[place][1] == 1
    linked = name.startswith(("to_file", "to_folder")) and (call[0] != "l" or "/" in name)
    if call in ("link_from", "link_follow_from") and plain == 0 and there:
        return "EXDEV"
    if call.startswith("open_") and name == "fifo" and isinstance(plain, list) and there:
        return "ENXIO"
    changed = plain in (None, "ENODATA", "EPERM")
    if call.lstrip("l") in ("setxattr", "removexattr") and changed and (there or linked):
        return "ENOTSUP"
    return plain


def matrix(what: str, place: Path, stride: int) -> str:
    return shlex.join([sys.executable, str(MATRIX), what, str(place), str(stride)])


def plain_results(place: Path, stride: int) -> dict[str, object]:
    """The results of the calls in a plain directory."""
    place.mkdir()
    subprocess.run(shlex.split(matrix("make", place, stride)), check=True)
    run = shlex.split(matrix("run", place, stride))
    done = subprocess.run(run, check=True, stdout=subprocess.PIPE)
    found: dict[str, object] = json.loads(done.stdout)
    return found


def tree(top: Path) -> dict[str, object]:
    """All files, directories and links below a directory: other kinds are never staged out."""
    found: dict[str, object] = {}
    for path in top.rglob("*"):
        status = path.lstat()
        name = str(path.relative_to(top))
        if stat.S_ISREG(status.st_mode):
            found[name] = [oct(status.st_mode), path.read_bytes()]
        elif stat.S_ISDIR(status.st_mode):
            found[name] = oct(status.st_mode)
        elif stat.S_ISLNK(status.st_mode):
            found[name] = os.readlink(path)
    return found


def difference(plain: dict[str, object], served: dict[str, object]) -> dict[str, object]:
    """Of each name that differs, both sides."""
    names = plain.keys() | served.keys()
    both = {name: (plain.get(name), served.get(name)) for name in names}
    return {name: pair for name, pair in both.items() if pair[0] != pair[1]}


def test_one_rank(tmp_path: Path) -> None:
    twin = tmp_path / "twin"
    plain = plain_results(twin, 1)
    stage = make_stage(tmp_path)
    dataset = stage.dataset(stage.source(files={"in/given": b""}))
    places = {name: stage.mount / name for name in ("in", "made")}
    script = f"mkdir {places['made']}"
    for name, place in places.items():
        script += f" && {matrix('make', place, 1)} && {matrix('run', place, 1)} >{tmp_path / name}"
    output = tmp_path / "output"
    stage.run(dataset, "sh", "-c", script, options=("--output-dir", str(output)))
    for name in places:
        assert difference(plain, json.loads((tmp_path / name).read_text())) == {}
        assert difference(tree(twin), tree(output / name)) == {}


@dataclass
class Seen:
    """The results of the calls, and the directories in which they made files: of the plain side
    and, by place, of two ranks."""

    plain: dict[str, object]
    served: dict[str, dict[str, object]]
    twin: Path
    output: Path


def folder(place: str) -> str:
    name = PLACES[place][0]
    return INPUTS.get(name, name)


def results_of_ranks(ranks: Ranks, run: RankRun, steps: Steps, stride: int) -> Iterator[object]:
    """The results of the calls in each place."""
    steps.do("make", "[os.mkdir(f'{root}/made-a'), os.mkdir(f'{root}/made-b')]", 1)
    for place, (_, maker, caller) in PLACES.items():
        for what, rank in (("make", maker), ("run", caller)):
            step, said = f"{what}-{place}", ranks.stage.path / f"{what}-{place}"
            command = matrix(what, ranks.mount(rank) / folder(place), stride)
            steps.tell(step, {rank: f"os.system({f'{command} >{said} 2>&1'!r})"})
            assert steps.answer(step, rank, lambda: run.process.poll() is None) == 0
        yield json.loads(said.read_text())


@pytest.fixture(scope="module", params=sampled([1, 13], [13]))
def seen(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Seen:
    path, stride = tmp_path_factory.mktemp("paths"), request.param
    ranks = make_ranks(path, {f"{name}/given": b"" for name in INPUTS.values()})
    twin, output = path / "twin", path / "output"
    plain = plain_results(twin, stride)
    steps = [f"{what}-{place}" for place in PLACES for what in ("make", "run")]
    told = Steps(path / "steps", "make", *steps)
    with ranks.running(2, told.command, "--output-dir", str(output)) as run:
        found = results_of_ranks(ranks, run, told, stride)
        served: dict[str, dict[str, object]] = dict(zip(PLACES, found, strict=True))
        assert run.end() == [0, 0], run.said()
        run.check_nothing_left()
    return Seen(plain, served, twin, output)


@needs_ranks
@pytest.mark.soak
@pytest.mark.parametrize("place", PLACES)
def test_two_ranks(seen: Seen, place: str) -> None:
    wanted = {case: expected(place, case, plain) for case, plain in seen.plain.items()}
    assert difference(wanted, seen.served[place]) == {}


@needs_ranks
@pytest.mark.parametrize("place", PLACES)
def test_all_is_in_the_output_directory(seen: Seen, place: str) -> None:
    wrong = difference(tree(seen.twin), tree(seen.output / folder(place)))
    linked = [name for name, (_, there) in wrong.items() if name.startswith("other") and not there]
    for name in linked if PLACES[place][1] == 1 else []:  # link(2) between ranks: EXDEV
        del wrong[name]
    assert wrong == {}
