"""`fanstore warmup`: what it names, where that comes to, and what it says of it."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shlex
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from inprocess import call
from mpiexec import needs_ranks
from ranks import FANSTORE, make_rank_stage
from serving import Stage, make_stage, runs, wait_for
from soak import sampled

from fanstore.atomic import Ended, Interrupted
from fanstore.dataset import open_dataset
from fanstore.errors import UsageError
from fanstore.job.jobs import FoundJob, ask, ask_status, find_jobs
from fanstore.messages.channel import connect
from fanstore.messages.requests import BringNear, Keeping, KeepRecords, Reached
from fanstore.progress import progress_of
from fanstore.warm import run
from fanstore.warm.mounts import Mount, named_files
from fanstore.warm.tally import Count, line

MIB = 1 << 20
SMALL = 100_000
LONG_BYTES = 9 * MIB + 5  # lazy never keeps it: it comes to the cache
FIELDS = ("to_disk", "to_cache", "to_memory", "there", "no_room", "failed")


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    stage = make_stage(tmp_path)
    files = {f"few/f{n}": os.urandom(SMALL + n) for n in range(8)}
    stage.source(files={**files, "few/deep/er/g": os.urandom(10), "long": os.urandom(LONG_BYTES)})
    return stage


@contextlib.contextmanager
def serving(stage: Stage, *options: str) -> Iterator[Path]:
    """A job of the stage's files; yields the dataset."""
    dataset = stage.dataset(stage.path / "plain", "data")
    stage.call("start", "--dataset", str(dataset), "--mount", str(stage.mount), *options)
    try:
        yield dataset
    finally:
        stage.call("stop")


def warm(stage: Stage, *arguments: str, code: int = 0, **env: str) -> dict[str, int]:
    """What the command says as JSON, without what is 0, and without `_bytes`."""
    said = json.loads(stage.call("warmup", "--json", *arguments, code=code, **env).stdout)
    assert set(said) == {"files", *(f"{name}_bytes" for name in FIELDS)}
    return {name.removesuffix("_bytes"): value for name, value in said.items() if value}


def few_bytes(stage: Stage) -> int:
    return sum(len(content) for name, content in stage.files.items() if name != "long")


def read_all(stage: Stage) -> None:
    """Each file has its bytes, as a program of the job sees it."""
    program = "import sys; sys.stdout.buffer.write(open(sys.argv[1], 'rb').read())"
    for name, content in stage.files.items():
        argv = [*FANSTORE, "exec", "--", FANSTORE[0], "-c", program, str(stage.mount / name)]
        done = subprocess.run(argv, env=stage.env, capture_output=True, timeout=60, check=True)
        assert done.stdout == content, name


def test_files_come_to_the_disk_or_the_cache_and_are_read_from_there(stage: Stage) -> None:
    with serving(stage, "--stage", "lazy", "--cache-bytes", "64M") as dataset:
        assert warm(stage, str(stage.mount / "few")) == {"files": 9, "to_disk": few_bytes(stage)}
        both = warm(stage, str(stage.mount))
        assert both.pop("to_memory", 0) + both.pop("there", 0) == few_bytes(stage)  # now on a disk
        assert both == {"files": 10, "to_cache": LONG_BYTES}
        assert warm(stage, str(stage.mount / "long")) == {"files": 1, "there": LONG_BYTES}
        dataset.rename(dataset.with_name("gone"))
        read_all(stage)


@pytest.mark.parametrize("how", [(), ("--in-place",)])
@pytest.mark.soak
def test_what_is_on_a_disk_comes_to_memory(stage: Stage, how: tuple[str, ...]) -> None:
    with serving(stage, *how):
        said = warm(stage, str(stage.mount))
        assert said.pop("to_memory", 0) + said.pop("there", 0) == few_bytes(stage) + LONG_BYTES
        assert said == {"files": 10}


@pytest.mark.parametrize("policy", sampled(["minio", "close", "lru"], ["minio"]))
@pytest.mark.soak
def test_what_has_no_room_is_told_and_can_be_read(stage: Stage, policy: str) -> None:
    options = ("--stage", "lazy", "--cache-bytes", "10M", "--cache-policy", policy)
    with serving(stage, *options):
        said = warm(stage, str(stage.mount / "long"))
        assert 0 < said["to_cache"] < LONG_BYTES  # half of the cache
        assert said["to_cache"] + said["no_room"] == LONG_BYTES
        read_all(stage)


def test_a_full_disk_leaves_the_cache(stage: Stage) -> None:
    """What --local-bytes leaves out comes to the cache."""
    options = ("--stage", "lazy", "--cache-bytes", "64M", "--local-bytes", "300k")
    with serving(stage, *options):
        said = warm(stage, str(stage.mount / "few"))
        assert said["to_disk"] > 0 and said["to_cache"] > 0
        assert said["to_disk"] + said["to_cache"] == few_bytes(stage)


def test_what_nobody_can_read_is_told(stage: Stage) -> None:
    with serving(stage, "--stage", "lazy", "--cache-bytes", "64M") as dataset:
        dataset.rename(dataset.with_name("gone"))
        said = warm(stage, str(stage.mount), code=1)
        assert said == {"files": 10, "failed": few_bytes(stage) + LONG_BYTES}
        dataset.with_name("gone").rename(dataset)
        assert "failed" not in warm(stage, str(stage.mount))


@pytest.mark.soak
def test_lists(stage: Stage) -> None:
    """Names of any bytes; relative ones; both kinds of separators, and paths beside a list."""
    odd = os.fsdecode(b"new\nline \xff")
    (stage.path / "plain" / odd).write_bytes(b"odd")
    names = stage.path / "names"
    with serving(stage, "--stage", "lazy"):
        names.write_text(f"{stage.mount}/few/f0\n{stage.mount}/few/../few/f1\n\n")
        assert warm(stage, "-f", str(names), str(stage.mount / "few" / "f0"))["files"] == 2
        inside = os.path.relpath(stage.mount / odd)
        names.write_bytes(os.fsencode(inside))
        assert warm(stage, "-0", "-f", str(names)) == {"files": 1, "to_disk": 3}
        done = subprocess.run(
            [*FANSTORE, "warmup", "-f", "-"], input=names.read_bytes() + b"\0", env=stage.env,
            capture_output=True, timeout=60, check=True,
        )  # fmt: skip
        assert done.stdout.startswith(b"1 file: brought ")


MISTAKES = {
    "": "name files or directories of a mount",
    "-0 {mount}": "give one with -f",
    "-f /dev/null": "/dev/null: names nothing",
    "-f {path}/none": "none: No such file or directory",
    "{mount}/none {mount}/long /etc/passwd": "none: no such file in the dataset\n  /etc/passwd",
    "{mount}/long/x": "long/x: lies behind what is not a directory",
    "/etc/passwd": "/etc/passwd: is in no mount of the job ({mount})",
    "{mount}-2": "mount-2: is in no mount",
}


@pytest.mark.soak
def test_mistakes_bring_nothing(stage: Stage) -> None:
    where = {"mount": str(stage.mount), "path": str(stage.path)}
    with serving(stage, "--stage", "lazy"):
        for words, said in MISTAKES.items():
            done = stage.call("warmup", *words.format(**where).split(), code=2)
            assert said.format(**where) in done.stderr and "Traceback" not in done.stderr
        (job,) = find_jobs(str(stage.local))
        node = ask_status(job).node
        assert node is not None and node.kept_records == 0


def test_without_a_job(stage: Stage) -> None:
    done = stage.call("warmup", str(stage.mount), code=125)
    assert "`fanstore start` start one" in done.stderr


def test_ctrl_c(stage: Stage) -> None:
    """While a daemon does not answer; the daemon goes on as if nothing had been."""
    with serving(stage, "--stage", "lazy"):
        (job,) = find_jobs(str(stage.local))
        pid = ask_status(job).daemon_pid
        os.kill(pid, signal.SIGSTOP)
        try:
            with stage.running("warmup", str(stage.mount)) as process:
                wait_for(lambda: has_socket(process.pid), "the command to ask")
                process.send_signal(signal.SIGINT)
                assert process.wait(60) == 130
        finally:
            os.kill(pid, signal.SIGCONT)
        assert warm(stage, str(stage.mount / "few"))["to_disk"] == few_bytes(stage)


def has_socket(pid: int) -> bool:
    fds = Path(f"/proc/{pid}/fd")
    with contextlib.suppress(OSError):
        return any(os.readlink(fd).startswith("socket:") for fd in fds.iterdir())
    return False


def test_an_interrupted_one_says_what_it_brought(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def end(job: FoundJob, mount: Mount, ids: Any, count: Count) -> None:
        count.add("to_disk", 3 * MIB)
        raise Ended(signal.SIGTERM)

    monkeypatch.setattr(run, "_warm_mount", end)
    with serving(stage, "--stage", "lazy"):
        (job,) = find_jobs(str(stage.local))
        with pytest.raises(Interrupted, match=r"SIGTERM: 3.0 MiB were brought by then") as caught:
            run.warm_up(job, [os.fsencode(stage.mount)], quiet=True)
        assert caught.value.exit_code == 128 + signal.SIGTERM


def test_a_killed_daemon(stage: Stage) -> None:
    dataset = stage.dataset(stage.path / "plain", "data")
    stage.call("start", "--dataset", str(dataset), "--mount", str(stage.mount))
    (job,) = find_jobs(str(stage.local))
    pid = ask_status(job).daemon_pid
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not runs(pid), "its end")
    done = stage.call("warmup", str(stage.mount), code=125)
    assert f"job {job.job_id} is dead: its daemon was killed" in done.stderr
    stage.call("clean")


ODD_REQUESTS: list[dict[str, Any]] = [
    {"op": "reach"},
    {"op": "reach", "mount": 0, "records": [1], "blocks": []},
    {"op": "reach", "mount": 9, "records": [1], "blocks": [0]},
    {"op": "reach", "mount": "x", "records": "y", "blocks": None},
    {"op": "reach", "mount": 0, "records": [-1], "blocks": [0]},
    {"op": "reach", "mount": 0, "records": [1 << 70], "blocks": [0]},
    {"op": "reach", "mount": 0, "records": [True], "blocks": [0]},
    {"op": "reach", "mount": 0, "records": [1] * 5000, "blocks": [0] * 5000},
    {"op": "keep", "mount": 0},
    {"op": "keeping", "number": None},
    {"op": []},
    {"op": {}},
]


def test_a_daemon_bears_any_request(stage: Stage) -> None:
    with serving(stage, "--stage", "lazy"):
        (job,) = find_jobs(str(stage.local))
        for request in ODD_REQUESTS:
            with contextlib.closing(connect(job.directory)) as channel:
                channel.socket.sendall(json.dumps(request).encode() + b"\n")
                assert "error" in json.loads(channel.receive_line() or b"{}"), request
        odd = BringNear(mount=0, records=[0, 1, 4_000_000_000], blocks=[0, 77, 0])
        assert ask(job, odd, Reached).reached == [7, 7, 7]
        odd_ones = KeepRecords(mount=0, records=[0, 4_000_000_000])
        assert ask(job, odd_ones, Keeping).number > 0


@pytest.mark.soak
@needs_ranks
def test_each_rank_warms_up_its_own_node(tmp_path: Path) -> None:
    """What others have comes to a rank's cache; of its own part it keeps what another rank did not
    make it keep already."""
    stage = make_rank_stage(tmp_path, 2)
    stage.source(files={f"f{n}": os.urandom(SMALL) for n in range(10)})
    dataset = stage.dataset(stage.path / "plain", "data")
    step = (
        f'set -e; for n in 0 1; do {shlex.join(FANSTORE)} warmup --json "$FANSTORE_MOUNT_PREFIX" '
    )
    step += '> "$OUT.$n.$FANSTORE_RANK"; done'
    for how in ("full", "lazy"):
        out = tmp_path / how
        options = ("--stage", how)
        stage.run_ranks(2, dataset, "sh", "-c", step, options=options, OUT=str(out))
        for rank in range(2):
            first, second = (json.loads(Path(f"{out}.{n}.{rank}").read_text()) for n in range(2))
            assert sum(first.values()) == 10 + 10 * SMALL and first["failed_bytes"] == 0
            assert 0 < first["to_cache_bytes"] < 10 * SMALL
            assert how == "lazy" or first["to_disk_bytes"] == 0
            assert second["to_cache_bytes"] == second["to_disk_bytes"] == 0


def brute_force(source: Path, names: list[str]) -> set[str]:
    """The files with content below names, by walking the plain directory."""
    found = set()
    for name in names:
        start = (source / name).resolve()
        below = [start] if start.is_file() else start.rglob("*")
        found |= {str(p) for p in below if p.is_file() and not p.is_symlink() and p.stat().st_size}
    return {os.path.relpath(path, source.resolve()) for path in found}


def test_named_files_are_those_that_a_walk_finds(tmp_path: Path) -> None:
    rng = random.Random(4)
    source = tmp_path / "plain"
    source.mkdir()
    directories = [source]
    for n in range(40):
        directories.append(rng.choice(directories) / f"d{n}")
        directories[-1].mkdir()
        for k in range(rng.randrange(4)):
            (directories[-1] / f"f{k}").write_bytes(bytes(rng.randrange(3)))
        (directories[-1] / "up").symlink_to(f"../{directories[-1].name}")
    (source / "all").symlink_to(tmp_path / "mount" / "d0")
    (source / "loop").symlink_to("loop")
    (source / "out").symlink_to("../..")
    call("prepare", source, tmp_path / "data", "--quiet")
    names = [os.path.relpath(path, source) for path in directories]
    prefix = os.fsencode(tmp_path / "mount")
    with open_dataset(tmp_path / "data") as dataset:
        mounts = [Mount(0, (prefix,), dataset, "", [])]
        for _ in range(60):
            chosen = rng.sample(names, rng.randrange(1, 5))
            paths = [os.path.join(prefix, os.fsencode(name), b"up") for name in chosen[1:]]
            paths.append(os.path.join(prefix, os.fsencode(chosen[0])))
            ids = named_files(mounts, [path.replace(b"./up", b".") for path in paths])[0]
            assert len(set(ids)) == len(ids)
            found = {os.fsdecode(dataset.relpath(int(record))) for record in ids}
            assert found == brute_force(source, chosen)
        through = named_files(mounts, [prefix + b"/all"])[0]
        assert list(through) == list(named_files(mounts, [prefix + b"/d0"])[0])
        for wrong, why in ((b"/loop", "too many links"), (b"/out", "out of the mounts")):
            with pytest.raises(UsageError, match=why):
                named_files(mounts, [prefix + wrong])
        with pytest.raises(UsageError) as told:
            named_files(mounts, [prefix + b"/no%d" % number for number in range(5000)])
        assert str(told.value).count("\n") == 21 and "and 4980 more" in str(told.value)
        del ids, through


def test_what_is_said() -> None:
    with progress_of("warmup", quiet=True) as progress:
        count = Count(progress)
        assert line(count.tally, 0) == "0 files: brought nothing"
        for number, name in enumerate(FIELDS):
            count.add(name, (number + 1) * MIB)
    assert line(count.tally, 7) == (
        "7 files: brought 1.0 MiB to the local disk, 2.0 MiB to the block cache, 3.0 MiB to memory"
        "; 4.0 MiB there already; 5.0 MiB found no room in the block cache"
        "; 6.0 MiB could not be read"
    )
