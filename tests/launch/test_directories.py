"""A job reads a directory as it is, mounted over itself: what programs see is what lies there, also
if it changes before the job or while the job runs."""

from __future__ import annotations

import concurrent.futures
import json
import os
import random
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from directories import DESCRIBE, MEET, describe, old, run, run_while, seen_plainly
from mpiexec import needs_ranks
from ranks import make_rank_stage
from serving import READ_ALL, Stage, daemon_of, flip, make_stage
from soak import sampled


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return make_stage(tmp_path)


def odd_tree(stage: Stage) -> Path:
    """Empty, short, page-aligned and long files; hard and symbolic links; odd names and modes."""
    sizes = (0, 1, 4095, 65535, 65536, 65537, 300_000, 9 << 20)
    source = stage.source(files={f"s{n}": os.urandom(size) for n, size in enumerate(sizes)})
    folder = os.fsencode(source) + b"/d"
    os.mkdir(folder)
    for name in (b"\xff\xfe", b"n" * 255, b" new\nline ", "ünï".encode()):
        Path(os.fsdecode(folder + b"/" + name)).write_bytes(name)
    os.link(source / "s4", source / "d" / "hard")
    os.symlink("../s3", source / "d" / "soft")
    os.symlink("nowhere", source / "dangling")
    (source / "empty").mkdir()
    (source / "s1").chmod(0o640)
    return source


@pytest.mark.parametrize("mode", sampled(["auto", "plan", "lazy"], ["lazy"]))
def test_it_is_seen_as_it_is(stage: Stage, mode: str) -> None:
    source = odd_tree(stage)
    old(source)
    plain = seen_plainly(source)
    for _ in range(2):  # listed anew, and kept
        done = run(stage, source, *describe(source), options=("--stage", mode))
        assert json.loads(done.stdout) == plain
        assert " error" not in done.stderr
    assert "listed by an earlier job" in done.stderr
    assert stage.leftovers() == []


def test_what_changed_since_the_listing_is_seen_as_it_is(stage: Stage) -> None:
    source = stage.source()
    old(source)
    run(stage, source, "true")
    (source / "f00").write_bytes(b"longer than it was" * 1000)
    os.truncate(source / "f01", 3)
    (source / "f02").unlink()
    (stage.path / "other").write_bytes(b"moved here")
    os.replace(stage.path / "other", source / "f03")
    (source / "added").write_bytes(b"added")
    plain = seen_plainly(source)
    assert json.loads(run(stage, source, *describe(source)).stdout) == plain


CHANGES = {
    "written in place": "printf longer-than-it-was-before >> f05",
    "same size": "printf X | dd of=f05 conv=notrunc status=none",
    "time put back": "touch -r f05 ../t; printf Y | dd of=f05 conv=notrunc status=none; "
    "touch -r ../t f05",
    "cut": "truncate -s 7 f05",
    "replaced": "printf other > ../t; mv ../t f05",
    "removed": "rm f05",
    "emptied": ": > f05",
}


LOOK = """
for name in ("f05", "f06"):
    try:
        with open(name, "rb") as stream:
            content = stream.read()
            size = os.fstat(stream.fileno()).st_size
        print(len(content), set(content), os.stat(name).st_size, size)
    except OSError as error:
        print(error)
"""


@pytest.mark.parametrize("change", sampled(CHANGES, ["same size", "removed"]))
def test_what_changes_during_the_job_is_served_from_the_original(stage: Stage, change: str) -> None:
    source = stage.source()
    old(source)
    python = (sys.executable, "-c")
    seen, said = run_while(
        stage, source, lambda: subprocess.run(CHANGES[change], shell=True, cwd=source, check=True),
        *python, MEET + "meet()" + LOOK, str(source),
    )  # fmt: skip
    command = [*python, "import os" + LOOK, str(source)]
    plain = subprocess.run(command, cwd=source, capture_output=True, text=True, check=True)
    assert seen == plain.stdout
    assert "1 file changed since the listing, such as f05" in said
    opened = 2 - (change == "removed")
    assert f"{opened} file{'s' * (opened > 1)} opened" in said
    assert json.loads(run(stage, source, *describe(source)).stdout) == seen_plainly(source)


RUN = """
for name in ("echo", "script"):
    print(subprocess.run([os.path.abspath(name), "a b"], capture_output=True, text=True).stdout)
"""


@pytest.mark.parametrize("changes", [False, True])
def test_programs_and_scripts_run_as_they_are(stage: Stage, changes: bool) -> None:
    source = stage.source()
    for name, content in (
        ("echo", Path("/bin/echo").read_bytes()),
        ("script", b"#!/bin/sh\necho 1"),
    ):
        (source / name).write_bytes(content)
        (source / name).chmod(0o755)
    old(source)

    def change() -> None:
        (stage.path / "new").write_bytes(b"#!/bin/sh\necho 2 $0 $1")
        (stage.path / "new").chmod(0o755)
        os.replace(stage.path / "new", source / "script")
        shutil.copy("/usr/bin/basename", stage.path / "new")
        os.replace(stage.path / "new", source / "echo")

    command = (sys.executable, "-c", "import subprocess" + MEET + "meet()" + RUN, str(source))
    seen, said = run_while(stage, source, change if changes else lambda: None, *command)
    plain = [sys.executable, "-c", "import os, subprocess" + RUN]
    done = subprocess.run(plain, cwd=source, capture_output=True, text=True, check=True)
    assert seen == done.stdout
    assert ("changed since the listing" in said) == changes


READ_LATER = """
open("f05", "rb").close()
meet()
print(open("f05", "rb").read()[:1])
"""


@pytest.mark.parametrize("kind", ["file", "fifo"])
def test_a_file_that_was_opened_and_not_read_may_change(stage: Stage, kind: str) -> None:
    source = stage.source()
    old(source)

    def change() -> None:
        (source / "f05").unlink()
        os.mkfifo(source / "f05")
        threading.Thread(target=(source / "f05").write_bytes, args=(b"Z",), daemon=True).start()

    def rewrite() -> None:
        (source / "f05").write_bytes(b"Z" * 1005)

    command = (sys.executable, "-c", MEET + READ_LATER, str(source))
    seen, _ = run_while(stage, source, change if kind == "fifo" else rewrite, *command)
    assert seen == "b'Z'\n"


READ_FIFO = """
stream = open("f05", "rb", buffering=0)
meet()
try:
    stream.read()
except OSError as error:
    print(error.strerror)
"""


def test_an_open_file_that_became_a_fifo_is_an_error(stage: Stage) -> None:
    source = stage.source()
    old(source)

    def change() -> None:
        (source / "f05").unlink()
        os.mkfifo(source / "f05")

    command = (sys.executable, "-c", MEET + READ_FIFO, str(source))
    seen, _ = run_while(stage, source, change, *command)
    assert seen == "Input/output error\n"


@pytest.mark.soak
def test_jobs_over_a_directory_that_changes_do_not_disturb_each_other(stage: Stage) -> None:
    source = stage.source()
    old(source)
    look = f"sleep 0.1; cat {shlex.quote(str(source))}/* | wc -c"
    ended = threading.Event()
    writer = threading.Thread(target=storm, args=(source, ended))
    writer.start()
    try:
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            jobs = [pool.submit(run, stage, source, "sh", "-c", look) for _ in range(9)]
            assert all(int(job.result().stdout) > 0 for job in jobs)
    finally:
        ended.set()
        writer.join()


READ_OPEN = """
stream = open("f05", "rb", buffering=0)
meet()
try:
    print(len(stream.read()), "bytes")
except OSError as error:
    print(error.strerror)
print(open("f05", "rb").read()[:1])
"""


def test_a_file_that_changes_while_it_is_open_is_an_error(stage: Stage) -> None:
    source = stage.source()
    old(source)

    def change() -> None:
        with (source / "f05").open("r+b") as stream:
            stream.write(b"Z")

    command = (sys.executable, "-c", MEET + READ_OPEN, str(source))
    seen, _ = run_while(stage, source, change, *command)
    assert seen == "Input/output error\nb'Z'\n"


def storm(source: Path, ended: threading.Event) -> None:
    """Replaces files, so that a plain reader never sees two versions of one either."""
    draw = random.Random(1)
    while not ended.is_set():
        new = source.parent / "new"
        new.write_bytes(bytes([draw.randrange(256)]) * draw.choice((1000, 70_000, 200_000)))
        os.replace(new, source / f"f{draw.randrange(20):02}")


def test_a_kept_copy_that_rotted_is_read_anew(stage: Stage) -> None:
    source = stage.source(files={f"f{n}": os.urandom(50_000) for n in range(8)})
    old(source)
    plain = seen_plainly(source)
    options = ("--stage", "plan", "--keep-staged")
    read_twice = (sys.executable, "-c", READ_ALL, str(source), "2")
    run(stage, source, *read_twice, options=options)
    packs = list(stage.local.rglob("*.fsp.sparse"))
    assert packs
    before = packs[0].stat()
    for at in range(10_000, before.st_size - 5000, 50_000):
        flip(packs[0], at)
    os.utime(packs[0], ns=(before.st_atime_ns, before.st_mtime_ns))
    done = run(stage, source, *describe(source), options=options)
    assert json.loads(done.stdout) == plain


def test_without_its_daemon_a_program_reads_the_originals(stage: Stage) -> None:
    source = stage.source(files={f"f{n:02}": os.urandom(30_000) for n in range(20)})
    old(source)
    plain = seen_plainly(source)
    where = [str(source), "--stage", "lazy", "--output-dir", str(stage.path / "out")]
    script = MEET + "meet()" + DESCRIBE
    cache = str(stage.path / "cache")
    command = (sys.executable, "-c", script, str(source))
    with stage.running("run", *where, "--", *command, XDG_CACHE_HOME=cache) as job:
        assert job.stdout is not None
        pid = int(job.stdout.readline())
        os.kill(daemon_of(job.pid), signal.SIGKILL)
        os.kill(pid, signal.SIGUSR1)
        assert json.loads(job.stdout.read()) == plain


@needs_ranks
@pytest.mark.soak
def test_ranks_read_each_file_once_in_all(tmp_path: Path) -> None:
    stage = make_rank_stage(tmp_path)
    source = stage.source(files={f"f{n:02}": os.urandom(60_000) for n in range(40)})
    old(source)
    options = [
        "--local-dir",
        str(stage.path / "r{rank}"),
        "--dataset",
        str(source),
        "--stage",
        "plan",
    ]
    argv = [sys.executable, "-m", "fanstore", "run", *options, "--", *describe(source)]
    done = stage.finished(stage.mpiexec(2, *argv), XDG_CACHE_HOME=str(stage.path / "cache"))
    plain = json.dumps(seen_plainly(source))
    assert done.stdout == plain * 2
    total = 40 * 60_000 / (1 << 20)
    assert f"{total:.1f} MiB read later from the shared file system" in done.stderr


def test_sources_of_all_kinds(stage: Stage) -> None:
    empty = stage.path / "nothing"
    empty.mkdir()
    assert run(stage, empty, "ls", "-a", str(empty)).stdout == ".\n..\n"
    source = stage.source()
    link = stage.path / "link"
    link.symlink_to("plain")
    assert run(stage, link, "sh", "-c", f"cat {link}/f01 {source}/f01").stdout == "\1" * 2002
    os.mkfifo(source / "fifo")
    done = run(stage, source, "ls", str(source))
    assert "left out: fifo (is a fifo)" in done.stderr
    source.chmod(0o555)
    assert json.loads(run(stage, source, *describe(source)).stdout)
    source.chmod(0o755)


def test_what_cannot_be_is_said(stage: Stage) -> None:
    source = stage.source()
    for options in (("--in-place",), ("--stage", "full")):
        done = run(stage, source, "true", options=options, code=125)
        assert "is a directory, not a dataset" in done.stderr
    assert "no such directory" in run(stage, stage.path / "missing", "true", code=125).stderr
    inside = stage.path / "plain" / "sub"
    inside.mkdir()
    both = (str(inside),)
    assert "nested" in run(stage, source, "true", options=both, code=125).stderr
