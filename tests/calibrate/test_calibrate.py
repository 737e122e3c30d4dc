"""Calibration: the machine it writes, what it says of its figures, and what it leaves behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from inprocess import call
from mpiexec import MPIEXEC, needs_ranks
from serving import LIMIT_S, wait_for
from small_disk import small_disk

from fanstore.config import load_toml
from fanstore.startup import World
from fanstore.study.calibrate.extents import cached_share, drop, own_files, portions, read
from fanstore.study.calibrate.machine import Machine, doubts, text_of
from fanstore.study.calibrate.run import turns
from fanstore.study.calibrate.together import Bench, Measured, Repeats
from fanstore.study.fields import Fields, rate_bytes_per_s, rate_text
from fanstore.study.machine import SYSTEM_KEYS, System, read_system

JOB = {"compute": "1 MB/s", "preprocess": "1 MB/s"}


def system_of(path: Path, **more: Any) -> System:
    """The machine in a file, with what is of a job."""
    table = {**load_toml(path)["system"], **JOB, **more}
    return read_system(Fields(str(path), "system", table, SYSTEM_KEYS))


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path, Path]:
    """A shared and a local directory, and where the machine goes."""
    shared, local = tmp_path / "shared", tmp_path / "local"
    shared.mkdir()
    local.mkdir()
    return shared, local, tmp_path / "machine.toml"


def options(places: tuple[Path, Path, Path]) -> list[str]:
    shared, local, out = map(str, places)
    return ["--shared", shared, "--local-dir", local, "--out", out, "--bytes", "2MiB",
            "--repeats", "2", "--quiet"]  # fmt: skip


def left(places: tuple[Path, Path, Path]) -> list[str]:
    """What there is beside the directories."""
    top = places[2].parent
    return sorted(str(path.relative_to(top)) for path in top.rglob("*") if path not in places[:2])


@pytest.mark.soak
def test_the_machine_is_one_for_simulate(places: tuple[Path, Path, Path]) -> None:
    done = call("study", "calibrate", *options(places))
    assert done.stdout.decode().split() == [str(places[2])]
    assert left(places) == ["machine.toml"]
    system = system_of(places[2], network="1 GB/s")
    assert sorted(each.name for each in system.classes) == ["disk", "ram"]
    assert all(each.capacity_bytes > 0 for each in system.classes)
    assert load_toml(places[2])["system"]["shared"]["readers"] == [1, 2, 4, 8]
    assert "# network: not measured" in places[2].read_text()
    refused = call("study", "calibrate", *options(places), code=2)
    assert "machine.toml: exists already (--force replaces it)" in refused.stderr
    call("study", "calibrate", *options(places), "--force")


@pytest.mark.soak
def test_the_packs_of_a_dataset_are_read_and_nothing_is_written(
    places: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    (tmp_path / "source").mkdir()
    for number in range(3):
        (tmp_path / "source" / str(number)).write_bytes(os.urandom(300_000))
    dataset = tmp_path / "data"
    call("prepare", tmp_path / "source", dataset, "--quiet")
    before = {path.name: path.stat().st_mtime_ns for path in dataset.iterdir()}
    call("study", "calibrate", *options((dataset, *places[1:])))
    assert {path.name: path.stat().st_mtime_ns for path in dataset.iterdir()} == before
    assert "bytes at a time of packs of a dataset" in places[2].read_text()
    next(dataset.glob("pack-*")).unlink()
    failed = call("study", "calibrate", *options((dataset, *places[1:])), "--force", code=125)
    assert "No such file" in failed.stderr


def test_readers_share_a_budget_and_no_byte() -> None:
    for counts in ((1, 2, 4, 8), (1, 2, 4, 8, 64), (3,)):
        unit, sizes = portions(counts, 64 << 20)
        assert sum(sizes) <= (64 << 20) + 4096 * len(sizes)
        assert len(sizes) == max(counts)
        for count in counts:
            assert all(size * count >= unit for size in sizes[:count])


def test_ranks_of_all_hosts_get_a_reader_first() -> None:
    assert turns(["a", "a", "b", "b", "b", "c"]) == [0, 2, 5, 1, 3, 4]


def test_own_files_leave_the_page_cache_and_the_directory(tmp_path: Path) -> None:
    bench = Bench(World(), 0)
    with own_files(tmp_path, [1 << 20, 3 << 20], bench) as files:
        assert not list(tmp_path.iterdir())
        for extents in files:
            drop(extents)
            if cached_share(extents) != 0:
                pytest.skip("this file system keeps its files in memory")
            read(extents, bench)
            assert cached_share(extents) == 1


@pytest.mark.soak
def test_a_cache_that_cannot_be_dropped_is_named(places: tuple[Path, Path, Path]) -> None:
    with small_disk(places[0], "8m"):
        said = call("study", "calibrate", *options(places)).stderr
    assert "shared file system: WORTHLESS: up to 100 % of it stayed in the page cache" in said
    assert "# WORTHLESS: up to 100 % of it stayed" in places[2].read_text()


def test_a_full_disk_is_named_and_nothing_is_left(places: tuple[Path, Path, Path]) -> None:
    for small in places[:2]:
        with small_disk(small, "1m"):
            failed = call("study", "calibrate", *options(places), code=125)
            assert f"{small}: No space left on device; its temporary files need" in failed.stderr
            assert not list(small.iterdir())
    assert left(places) == []


def test_bad_arguments_are_named(places: tuple[Path, Path, Path]) -> None:
    shared, local, out = places
    a_file = out.with_name("a file")
    a_file.touch()
    for changed, message, code in (
        ((shared / "missing", local, out), "missing: there is no such directory", 2),
        ((Path("/proc"), local, out), "/proc", 125),
        ((shared, a_file, out), "not a directory", 2),
        ((shared, local, shared / "no" / "m"), "there is no directory ", 2),
        ((shared, local, shared), "is a directory", 2),
    ):
        assert message in call("study", "calibrate", *options(changed), code=code).stderr
    for size in ("5", "1 MB/s", "1000 B", "-1 MB"):
        said = call("study", "calibrate", *options(places), "--bytes", size, code=2).stderr
        assert f"--bytes is {size!r}; allowed: a number with a unit, from 1 MiB on" in said
    a_file.unlink()
    assert left(places) == []


def running(places: tuple[Path, Path, Path], *launcher: str) -> subprocess.Popen[str]:
    more = ["--bytes", "64MiB", "--repeats", "1000"]
    command = [sys.executable, "-m", "fanstore", "study", "calibrate", *options(places), *more]
    return subprocess.Popen(
        [*launcher, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip


def has_open_in(pid: int, directory: Path) -> bool:
    """Whether a process has a file open in a directory."""
    try:
        fds = list(Path(f"/proc/{pid}/fd").iterdir())
        return any(os.readlink(fd).startswith(f"{directory}/") for fd in fds)
    except OSError:
        return False


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_nothing(places: tuple[Path, Path, Path], number: int) -> None:
    with running(places) as process:
        wait_for(lambda: has_open_in(process.pid, places[0]), "files to be read")
        process.send_signal(number)
        stderr = process.communicate(timeout=LIMIT_S)[1]
    assert process.returncode == 128 + number
    assert f"ended by {signal.Signals(number).name}: no machine was written" in stderr
    assert left(places) == []


@needs_ranks
@pytest.mark.soak
def test_two_ranks_measure_the_network_between_them(places: tuple[Path, Path, Path]) -> None:
    command = [str(MPIEXEC), "-n", "2", sys.executable, "-m", "fanstore", "study", "calibrate"]
    done = subprocess.run(
        [*command, *options(places)], capture_output=True, text=True, timeout=LIMIT_S
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(places[2])]
    assert system_of(places[2]).network_bytes_per_s > 0
    assert "network: WORTHLESS: all ranks were on one node" in done.stderr
    assert "2 ranks on 1 node," in places[2].read_text()
    again = subprocess.run(
        [*command, *options(places)], capture_output=True, text=True, timeout=LIMIT_S
    )
    assert again.returncode == 2 or again.returncode == 2 | 125  # mpiexec joins what ranks say
    assert again.stderr.count("machine.toml: exists already") == 1
    assert left(places) == ["machine.toml"]


def machine(**changes: Any) -> Machine:
    """A machine whose figures are steady."""
    steady = Measured({1: Repeats(10**8, (0.1, 0.1)), 8: Repeats(10**8, (0.025, 0.025))})
    slow = Measured({1: Repeats(10**8, (1.0, 1.1, 1.05)), 8: Repeats(10**8, (0.5, 0.5, 0.5))})
    network = Measured({1 << 20: Repeats(123_456_789, (0.1, 0.1))})
    values: dict[str, Any] = {
        "heading": ("a test",), "shared": slow, "shared_where": "/shared", "local_read": slow,
        "local_write": slow, "local_where": "/local", "copy": steady, "network": network,
        "nodes": 2, "ranks_per_node": 2, "threads": 4, "memory_bytes": 1 << 34,
        "disk_bytes": 1 << 40,
    }  # fmt: skip
    return Machine(**{**values, **changes})


def test_the_file_says_what_was_measured(tmp_path: Path) -> None:
    path = tmp_path / "m.toml"
    path.write_text(text_of(machine()))
    system = system_of(path)
    assert (system.nodes, system.ranks_per_node) == (2, 2)
    assert system.network_bytes_per_s == pytest.approx(1.235e9, rel=1e-3)
    assert [each.name for each in system.classes] == ["ram", "disk"]
    assert system.classes[0].threads == 8
    assert float(system.classes[0].read(8)) == 4e9
    assert float(system.classes[1].read(1)) == pytest.approx(10**8 / 1.05, rel=1e-3)
    assert system.shared.readers_per_rank == system.staging_buffer.threads == 4
    assert "spread 10, 0 %" in path.read_text()


def test_the_faster_class_stands_first_whichever_it_is(tmp_path: Path) -> None:
    usual = machine()
    path = tmp_path / "m.toml"
    path.write_text(text_of(machine(copy=usual.local_read, local_read=usual.copy)))
    assert [each.name for each in system_of(path).classes] == ["disk", "ram"]


def test_what_is_worth_nothing_is_said() -> None:
    assert doubts(machine()) == []
    points = {2: Repeats(10**8, (1.0, 1.0, 1.6)), 4: Repeats(10**8, (1.0, 1.0, 1.0, 2.0, 2.0, 9.0))}
    noisy = Measured({1: Repeats(10**8, (1.0, 1.0, 1.0, 9.0)), **points})
    short = Measured({4: Repeats(10**6, (0.001, 0.001))}, ("WORTHLESS: a note",))
    said = doubts(machine(shared=noisy, local_write=short))
    assert said == [
        "shared file system at 2, 4: WORTHLESS: repeats differ: measure again when nothing else "
        "runs, or with more --bytes",
        "local disk, writing at 4: WORTHLESS: less than 5 ms: give more --bytes",
        "local disk, writing: WORTHLESS: a note",
    ]
    assert all(f"# {line}" in text_of(machine(shared=noisy, local_write=short)) for line in said)


@pytest.mark.parametrize("rate", [0.2, 1, 999.96, 1234, 56_789_012, 3.3e9, 7.77e15])
def test_rates_are_written_as_they_are_read(rate: float) -> None:
    assert rate_bytes_per_s(rate_text(rate)) == pytest.approx(max(1, rate), rel=5e-4)
