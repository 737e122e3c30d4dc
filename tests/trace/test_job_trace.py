"""Traces of jobs: counts are what programs did, however they start others and end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from serving import Stage, daemon_of, make_stage, wait_for
from small_disk import small_disk

from fanstore.trace import Trace, live_counters, live_trace, read_trace

# What the programs share: open_some opens `count` files, one after the other, and reads them.
COMMON = """
import os, signal, sys, threading
root = os.environ["FANSTORE_MOUNT_PREFIX"]
names = sorted(os.listdir(root))
def open_some(count):
    for n in range(count):
        with open(os.path.join(root, names[n % len(names)]), "rb") as stream:
            stream.read()
def outwait(pid):
    os.waitpid(pid, 0)
"""
FORKS = """
open_some(10)
for _ in range(3):
    pid = os.fork()
    open_some(7)
    if pid == 0:
        os._exit(0)
    outwait(pid)
"""  # 10 + 3 * 14
THREADS = """
threads = [threading.Thread(target=open_some, args=(5,)) for _ in range(400)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""  # 400 * 5, most beyond the lanes that are free
SPAWNS = """
import subprocess
for _ in range(5):
    subprocess.run(["cat", os.path.join(root, names[0])], check=True, stdout=subprocess.DEVNULL)
    outwait(os.posix_spawn("/bin/cat", ["cat", os.path.join(root, names[0])], os.environ,
        file_actions=[(os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0)]))
"""  # 5 * 2
KILLED = """
said, saying = os.pipe()
for _ in range(20):
    pid = os.fork()
    if pid == 0:
        while True:
            open_some(1)
            os.write(saying, b".")
    os.read(said, 1)
    os.kill(pid, signal.SIGKILL)
    outwait(pid)
os.set_blocking(said, False)
done = 20
try:
    while got := os.read(said, 65536): done += len(got)
except BlockingIOError: pass
print(done)
"""  # what it prints, and at most one more for each of the 20
LEFT_BEHIND = "open_some(12); os.kill(os.getpid(), signal.SIGKILL)"


def run(
    stage: Stage, program: str, *options: str, code: int = 0, before: tuple[str, ...] = ()
) -> tuple[Trace, str]:
    """Runs a program under a job that keeps its trace; returns that and what the program said."""
    dataset = stage.path / "data"
    if not dataset.exists():
        stage.dataset()
    file = stage.path / "kept.trace"
    given = ("--trace", str(file), *options)
    command = (*before, sys.executable, "-c", COMMON + program)
    done = stage.run(dataset, *command, options=given, code=code)
    return read_trace(file), done.stdout


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return make_stage(tmp_path)


def assert_whole(trace: Trace, opens: int) -> None:
    """All opens are counted, and there is a note for each that was not lost."""
    assert trace.problem == ""
    assert trace.total("opens") == opens
    assert len(trace.opens) + int(trace.processes["dropped"].sum()) >= opens
    assert int(trace.processes["dropped"].sum()) > 0 or len(trace.opens) == opens


@pytest.mark.parametrize(
    ("program", "opens", "programs"),
    [
        pytest.param(FORKS, 52, 4, id="forks"),
        pytest.param(THREADS, 2000, 1, id="threads"),
        pytest.param(SPAWNS, 10, 10, id="spawns"),
        pytest.param(LEFT_BEHIND, 12, 1, id="killed"),
    ],
)
def test_every_open_is_counted_once(stage: Stage, program: str, opens: int, programs: int) -> None:
    trace, _ = run(stage, program, code=137 if program == LEFT_BEHIND else 0)
    assert_whole(trace, opens)
    readers = trace.counts["opens"][trace.processes["number"] > 0]
    assert (readers > 0).sum() == programs
    assert set(trace.opens["dataset"]) == {0} and (trace.opens["file"] < 21).all()


def test_each_program_of_an_exec_counts_for_itself(stage: Stage) -> None:
    script = stage.path / "again.py"
    script.write_text(
        COMMON + "open_some(10)\n"
        "if len(sys.argv) < 3: os.execv(sys.executable, [sys.executable, *sys.argv, 'x'])\n"
    )
    stage.dataset()
    file = stage.path / "kept.trace"
    stage.run(stage.path / "data", sys.executable, str(script), options=("--trace", str(file)))
    trace = read_trace(file)
    assert_whole(trace, 30)
    counts = trace.counts["opens"]
    assert sorted(counts[counts > 0]) == [10, 10, 10]
    assert len(set(trace.processes["pid"][counts > 0])) == 1
    assert trace.processes["end_ns"][counts > 0].all()


def test_programs_that_are_killed_as_they_open_are_counted(stage: Stage) -> None:
    trace, said = run(stage, KILLED)
    assert int(said) <= trace.total("opens") <= int(said) + 20
    lost = trace.total("opens") - len(trace.opens)
    assert 0 <= lost <= int(trace.processes["dropped"].sum()) + 20


def test_trapped_programs_are_counted(stage: Stage) -> None:
    trace, _ = run(stage, "open_some(30)", "--trap")
    assert_whole(trace, 30)


def test_programs_in_another_pid_namespace_are_counted_and_their_lanes_freed(
    stage: Stage,
) -> None:
    unshare = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
    if subprocess.run([*unshare, "true"], check=False, capture_output=True).returncode != 0:
        pytest.skip("PID namespaces take root, and a machine that lets it")
    trace, _ = run(stage, FORKS, before=unshare)
    assert_whole(trace, 52)
    readers = trace.processes[trace.counts["opens"] > 0]
    assert set(readers["pid_space"]).isdisjoint({0, os.stat("/proc/self/ns/pid").st_ino})
    assert readers["end_ns"].all() and (readers["pid"] < 100).all()


def test_lanes_of_ended_programs_are_used_again(stage: Stage) -> None:
    stage.dataset()
    command = ("run", "--dataset", str(stage.path / "data"), "--mount", str(stage.mount), "--")
    program = (
        COMMON + "import time\nfor _ in range(4):\n    pid = os.fork()\n    if pid == 0:\n"
        "        open_some(3); os._exit(0)\n    outwait(pid)\nprint(os.environ['FANSTORE_JOB_DIR'],"
        " flush=True)\ntime.sleep(600)"
    )
    with stage.running(*command, sys.executable, "-c", program) as process:
        assert process.stdout is not None
        job = process.stdout.readline().strip()
        wait_for(lambda: len(live_trace(job).processes) <= 2, "the daemon frees lanes")
        trace = live_trace(job)
        assert trace.total("opens") == int(live_counters(job)["opens"]) == 12
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)


def test_two_jobs_of_one_trace_file_do_not_mix(stage: Stage) -> None:
    stage.dataset()
    file = stage.path / "kept.trace"
    where = ("--dataset", str(stage.path / "data"), "--trace", str(file), "--mount")
    slow = COMMON + "open_some(20); sys.stdin.read()"
    command = ("run", *where, str(stage.path / "other"), "--", sys.executable, "-c", slow)
    with stage.running(*command) as process:
        wait_for(lambda: list(stage.path.glob("kept.trace.*.part")), "the first job keeps one")
        stage.call("run", *where, str(stage.mount), "--", sys.executable, "-c", slow)
        process.communicate(timeout=60)
    trace = read_trace(file)
    assert_whole(trace, 20)
    assert list(stage.path.glob("kept.trace.*")) == []


def test_a_trace_on_a_full_disk_ends_and_the_job_goes_on(stage: Stage) -> None:
    stage.dataset()
    small = stage.path / "small"
    small.mkdir()
    with small_disk(small, "64k"):
        (small / "other").write_bytes(bytes(60 << 10))
        file = small / "kept.trace"
        program = COMMON + (
            "import random\n"
            "import time\n"
            "for n in range(30000):\n"
            "    open(os.path.join(root, random.choice(names)), 'rb').close()\n"
            "    n % 1000 or time.sleep(0.05)\n"
        )
        done = stage.run(
            stage.path / "data", sys.executable, "-c", program, options=("--trace", str(file))
        )
        assert "No space left on device: the trace ends here" in done.stderr
        assert "30,000 files opened" in done.stderr
        trace = read_trace(file)
        assert trace.problem != "" and len(trace.opens) < 30000


def test_a_trace_that_could_not_begin_replaces_nothing(stage: Stage) -> None:
    stage.dataset()
    small = stage.path / "small"
    small.mkdir()
    with small_disk(small, "64k"):
        (small / "kept.trace").write_bytes(b"earlier")
        (small / "other").write_bytes(bytes(60 << 10))
        options = ("--report", str(small / "kept.html"))
        done = stage.run(stage.path / "data", "true", options=options)
        assert "kept.trace." in done.stderr and "the trace ends here" in done.stderr
        assert "report: not made, for there is no trace" in done.stderr
        assert (small / "kept.trace").read_bytes() == b"earlier"
        assert sorted(path.name for path in small.iterdir()) == ["kept.trace", "other"]


def is_written(trace: Trace) -> bool:
    """Whether both the notes of 50 opens and their count are there."""
    return trace.total("opens") == len(trace.opens) == 50


def test_a_trace_outlives_a_killed_daemon(stage: Stage) -> None:
    stage.dataset()
    file = stage.path / "kept.trace"
    with stage.running(
        "run", "--dataset", str(stage.path / "data"), "--mount", str(stage.mount),
        "--trace", str(file), "--", sys.executable, "-c",
        COMMON + "open_some(50)\nprint(1, flush=True)\nimport time; time.sleep(7); open_some(1)",
    ) as process:  # fmt: skip
        assert process.stdout is not None
        process.stdout.readline()
        [part] = stage.path.glob("kept.trace.*.part")
        wait_for(lambda: is_written(read_trace(part)), "the notes are written")
        os.kill(daemon_of(process.pid), signal.SIGKILL)
        _, said = process.communicate(timeout=60)
    assert f"trace: up to then it is {part}" in said
    trace = read_trace(part)
    assert "ended before the trace was whole" in trace.problem
    assert is_written(trace)


def test_off_means_counts_alone(stage: Stage) -> None:
    stage.dataset()
    program = COMMON + "open_some(9)\nprint(os.environ['FANSTORE_JOB_DIR'])\nsys.stdout.flush()"
    program += "\nsys.path.insert(0, sys.argv[1])\nfrom fanstore.trace import live_trace"
    program += "\ntrace = live_trace(os.environ['FANSTORE_JOB_DIR'])"
    program += "\nprint(trace.total('opens'), len(trace.opens))"
    done = stage.run(
        stage.path / "data", sys.executable, "-c", program, str(Path(__file__).parents[2]),
        options=("--trace", "off"),
    )  # fmt: skip
    assert done.stdout.split()[-2:] == ["9", "0"]


def test_blocks_of_large_files_are_in_the_trace(stage: Stage) -> None:
    source = stage.source(files={"large": bytes(3 << 20), "small": b"x"})
    stage.dataset(source)
    trace, _ = run(
        stage,
        "with open(root + '/large', 'rb', buffering=0) as stream:\n"
        "    stream.seek(2500000); stream.read(10); stream.read(10); stream.seek(0)\n"
        "    stream.read(1048577)\n",
        "--output-dir",
        str(stage.path / "out"),
    )
    assert list(trace.blocks["block"]) == [2, 0, 1]
    assert set(trace.blocks["file"]) == set(trace.opens["file"])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("none/here", "there is no directory"),
        (".", "is a directory; name a file, on or off"),
        ("pipe", "is no regular file, and is not replaced"),
    ],
)
def test_a_trace_file_that_cannot_be_is_refused(stage: Stage, given: str, said: str) -> None:
    stage.dataset()
    os.mkfifo(stage.path / "pipe")
    done = stage.run(
        stage.path / "data", "true", options=("--trace", str(stage.path / given)), code=125
    )
    assert "--trace: " in done.stderr and said in done.stderr
    assert (stage.path / "pipe").is_fifo()
