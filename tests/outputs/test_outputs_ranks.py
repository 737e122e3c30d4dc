"""Outputs among ranks: what one writes the others see, whole; of a clash one comes out ahead.

The tests share a job, whose start costs most: each works with names of its own.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest
from fault_tools import RankRun, make_ranks
from mpiexec import needs_ranks
from output_steps import Steps, content, digest
from serving import wait_for
from soak import sampled

from fanstore.outputs.model.entries import keeper_of

pytestmark = needs_ranks

MIB = 1 << 20
STEPS = [f"s{n}" for n in range(120)]


class Job:
    """A run of `size` ranks whose steps are numbered by themselves. output: where outputs come."""

    def __init__(self, run: RankRun, steps: Steps, size: int, output: Path) -> None:
        self.output = output
        self.run = run
        self.size = size
        self._steps = steps
        self._next = iter(STEPS)

    def all(self, text: str | dict[int, str]) -> list[object]:
        """What all ranks say to it, at the same time."""
        step = next(self._next)
        self._steps.tell(step, text)
        return [self._steps.answer(step, rank) for rank in range(self.size)]

    def one(self, rank: int, text: str) -> object:
        """What one rank says to it."""
        return self.all({rank: text})[rank]

    def wait_for_placed(self, name: str, data: bytes) -> None:
        """Waits until a file is in the output directory, whole."""
        path = self.output / name
        wait_for(lambda: path.exists() and path.read_bytes() == data, f"{name} to be placed")

    def end(self) -> None:
        for step in self._next:
            self._steps.tell(step, "None")
        assert self.run.end() == [0] * self.size, [self.run.err(r) for r in range(self.size)]
        self.run.check_nothing_left()


@pytest.fixture(scope="module", params=sampled([2, 3, 4], [3]))
def job(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Job]:
    path, size = tmp_path_factory.mktemp("job"), request.param
    ranks = make_ranks(path, {"input": b"an input", "in/put": b"another"})
    steps = Steps(path / "steps", *STEPS)
    with ranks.running(size, steps.command, "--output-dir", str(path / "output")) as run:
        job = Job(run, steps, size, path / "output")
        yield job
        job.end()


def error(number: int) -> list[object]:
    """What a step says that failed."""
    return ["errno", number]


def directory_of(home: int, size: int, other_than: str = "") -> str:
    """A directory whose names are kept by a rank."""
    names = (f"d{n}" for n in range(1000))
    return next(d for d in names if keeper_of(0, d.encode(), size) == home and d != other_than)


def test_what_is_closed_is_seen_whole_by_all(job: Job) -> None:
    for writer in range(job.size):
        names = [f"of{writer}-{n}" for n in (0, 1, 5000, 3 * MIB + 7)]
        for name in names:
            length = int(name.split("-")[1])
            assert job.one(writer, f"write({name!r}, {length})") is None
        expected = [digest(name, int(name.split("-")[1])) for name in names]
        assert job.all(f"[read(n) for n in {names}]") == [expected] * job.size
    there = job.all("[names(), len(names('in'))]")
    assert there == [there[0]] * job.size
    assert f"of{job.size - 1}-1" in there[0][0] and "input" in there[0][0]  # type: ignore[index]


def test_a_large_file_is_the_same_everywhere(job: Job) -> None:
    assert job.one(1, f"write('large', {20 * MIB + 5})") is None
    assert job.all("read('large')") == [digest("large", 20 * MIB + 5)] * job.size
    stat = "(lambda s: [s.st_size, s.st_mode, s.st_ino, s.st_mtime_ns])(os.stat(root+'/large'))"
    seen = job.all(stat)
    assert seen == [seen[0]] * job.size
    job.wait_for_placed("large", content("large", 20 * MIB + 5))


def test_of_those_who_create_exclusively_one_succeeds(job: Job) -> None:
    for n in range(4):
        text = f"os.close(os.open(root + '/lock{n}', os.O_CREAT | os.O_EXCL | os.O_WRONLY))"
        said = job.all(text)
        assert said.count(None) == 1 and said.count(error(errno.EEXIST)) == job.size - 1, said
    said = job.all("os.mkdir(root + '/dir')")
    assert said.count(None) == 1 and said.count(error(errno.EEXIST)) == job.size - 1, said


def test_what_is_written_is_hidden_until_it_is_closed(job: Job) -> None:
    assert job.one(0, "begin('draft', 5000)") is None
    assert job.one(1, "read('draft')") == error(errno.ENOENT)
    assert job.one(1, "write('draft', 10)") == error(errno.ETXTBSY)
    assert "draft" not in job.one(1, "names()")  # type: ignore[operator]
    assert job.one(0, "read('draft')") == digest("draft", 5000)
    assert job.one(0, "finish('draft')") is None
    assert job.all("read('draft')") == [digest("draft", 5000)] * job.size
    # So is a new version, which another rank writes from the beginning.
    assert job.one(1, "begin('draft', 6000)") is None
    assert job.one(0, "read('draft')") == error(errno.ENOENT)
    assert job.one(1, "finish('draft')") is None
    assert job.all("read('draft')") == [digest("draft", 6000)] * job.size


def test_renames_across_homes_and_owners(job: Job) -> None:
    first, second = directory_of(0, job.size), directory_of(1, job.size)
    assert job.one(0, f"write('{first}/a', 3000)") is None
    assert job.one(1, f"write('{second}/b', 4000)") is None
    rename = f"os.rename(root + '/{first}/a', root + '/{second}/b')"
    assert job.one(job.size - 1, rename) is None
    seen = f"[names('{first}'), names('{second}'), read('{second}/b')]"
    assert job.all(seen) == [[[], ["b"], digest(f"{first}/a", 3000)]] * job.size
    # The directory itself, with what is in it.
    other = directory_of(0, job.size, first)
    assert job.one(1, f"os.rename(root + '/{second}', root + '/{other}')") is None
    seen = f"[read('{other}/b'), os.path.exists(root + '/{second}')]"
    assert job.all(seen) == [[digest(f"{first}/a", 3000), False]] * job.size
    assert job.one(0, f"remove('{other}/b')") is None
    assert job.all(f"names('{other}')") == [[]] * job.size


def test_ranks_that_rename_one_file_to_many_names_leave_one(job: Job) -> None:
    for n in range(3):
        assert job.one(0, f"write('from{n}', 100)") is None
        said = job.all(f"os.rename(root + '/from{n}', root + '/in/to' + rank)")
        assert said.count(None) == 1 and said.count(error(errno.ENOENT)) == job.size - 1, said
        winner = said.index(None)
        assert job.all(f"read('in/to{winner}')") == [digest(f"from{n}", 100)] * job.size


def test_what_many_ranks_append_in_turn_is_all_there(job: Job) -> None:
    for n in range(8):
        text = f"(lambda f: [f.write('{n};'), f.close()] and None)(open(root + '/log', 'a'))"
        assert job.one(n % job.size, text) is None
    expected = "".join(f"{n};" for n in range(8))
    assert job.all("open(root + '/log').read()") == [expected] * job.size
    job.wait_for_placed("log", expected.encode())


@pytest.mark.soak
def test_many_small_files_of_all_ranks(job: Job) -> None:
    text = "[write(f'm{n % 5}/r{rank}-{n}', n * 37) for n in range(40)] and None"
    assert job.all(text) == [None] * job.size
    sizes = {f"m{n % 5}/r{r}-{n}": n * 37 for r in range(job.size) for n in range(40)}
    expected = [digest(name, size) for name, size in sizes.items()]
    assert job.all(f"[read(name) for name in {list(sizes)}]") == [expected] * job.size
    for name, size in sizes.items():
        job.wait_for_placed(name, content(name, size))


@pytest.mark.soak
def test_attributes_changed_through_a_copys_descriptor(job: Job) -> None:
    """They are refused: the copy is not the file, and its name may be another's by now."""
    assert job.one(0, "write('d/f', 10)") is None
    assert job.one(1, "opened.update(f=os.open(root + '/d/f', os.O_RDONLY))") is None
    look = "(lambda s: [s.st_mode, s.st_mtime_ns, s.st_uid])(os.fstat(opened['f']))"
    before = job.one(1, look)
    for change in (
        "os.fchmod(opened['f'], 0o640)",
        "os.fchown(opened['f'], 7, 8)",
        "os.utime(opened['f'], ns=(5, 7))",
        "os.setxattr(opened['f'], 'user.a', b'b')",
    ):
        assert job.one(1, change) == error(errno.EROFS)
    assert job.one(1, look) == before
    assert job.one(1, "finish('f')") is None


@pytest.mark.soak
def test_written_by_the_path_of_a_copys_descriptor(job: Job) -> None:
    """Another node's file is not written in its copy."""
    assert job.one(0, "write('f', 4000)") is None
    assert job.all("opened.update(f=os.open(root + '/f', os.O_RDONLY))") == [None] * job.size
    again = "os.open(f'/proc/self/fd/{opened[\"f\"]}', os.O_RDWR)"
    assert job.one(1, again) == error(errno.EROFS)
    assert job.all("read('f')") == [digest("f", 4000)] * job.size
