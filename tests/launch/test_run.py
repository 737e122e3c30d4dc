"""fanstore run: exit codes, signals, prefixes, several datasets, nothing left behind."""

from __future__ import annotations

import json
import os
import re
import select
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from serving import READ_ALL, Stage, command_of, daemon_of, make_stage, runs, wait_for
from soak import combined, sampled
from terminal import drain, on_terminal, state


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return make_stage(tmp_path)


def test_the_command_sees_the_files(stage: Stage) -> None:
    dataset = stage.dataset()
    done = stage.run(
        dataset, "sh", "-c", 'ls "$FANSTORE_MOUNT_PREFIX"; cat "$0"/f07', str(stage.mount)
    )
    names = "".join(f"{name}\n" for name in sorted(stage.files))
    assert done.stdout == names + stage.files["f07"].decode()
    assert stage.leftovers() == []


def test_only_the_summary_is_said_and_quiet_silences_it(stage: Stage) -> None:
    dataset = stage.dataset()
    assert "0 files opened" in stage.run(dataset, "true").stderr
    assert stage.run(dataset, "true", options=("--quiet",)).stderr == ""


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ("exit 0", 0),
        ("exit 42", 42),
        ("exit 255", 255),
        ("kill -9 $$", 137),
        ("kill -TERM $$", 143),
    ],
)
def test_exit_code_is_the_commands(stage: Stage, script: str, code: int) -> None:
    stage.run(stage.dataset(), "sh", "-c", script, code=code)
    assert stage.leftovers() == []


def test_exit_codes_of_a_command_that_cannot_start(stage: Stage) -> None:
    dataset = stage.dataset()
    done = stage.run(dataset, str(stage.path / "nowhere"), code=127)
    assert "No such file" in done.stderr
    stage.run(dataset, "no-such-command-anywhere", code=127)
    stage.run(dataset, str(dataset / "manifest.json"), code=126)
    stage.run(dataset, str(stage.path), code=126)
    assert stage.leftovers() == []


def test_own_failures_are_125(stage: Stage) -> None:
    stage.run(stage.path / "missing", "true", code=125)
    dataset = stage.dataset()
    stage.call("run", "--dataset", str(dataset), "--mount", "/", "--", "true", code=125)
    stage.call("run", "--mount", "/x", "--dataset", str(dataset), "--", "true", code=125)
    stage.call("run", "--no-such-option", "--", "true", code=125)
    assert stage.leftovers() == []


def test_a_script_without_a_magic_line_is_run_by_the_shell(stage: Stage) -> None:
    script = stage.path / "script"
    script.write_text('echo "$0 $1"\n')
    script.chmod(0o755)
    assert stage.run(stage.dataset(), str(script), "a").stdout == f"{script} a\n"


def test_a_command_on_the_mount(stage: Stage) -> None:
    source = stage.source(files={"tool": b"#!/bin/sh\necho on the mount: $1\n"})
    (source / "tool").chmod(0o755)
    done = stage.run(stage.dataset(source), str(stage.mount / "tool"), "x")
    assert done.stdout == "on the mount: x\n"


def test_an_interrupted_command_that_goes_on_is_named_once(stage: Stage) -> None:
    arguments = ("--dataset", str(stage.dataset()), "--mount", str(stage.mount))
    script = (
        "trap '' INT; echo ready; for n in $(seq 600); do test -e $0 && exit 7; sleep 0.05; done"
    )
    command = ("--", "sh", "-c", script, str(stage.path / "end"))
    with stage.running("run", *arguments, *command) as run:
        assert run.stdout is not None and run.stderr is not None
        assert run.stdout.readline() == "ready\n"
        pid = command_of(run.pid)
        until_s = time.monotonic() + 60
        while not select.select([run.stderr], [], [], 0.2)[0] and time.monotonic() < until_s:
            run.send_signal(signal.SIGINT)  # two that come together count as one
        line = run.stderr.readline()
        (stage.path / "end").touch()
        _, rest = run.communicate(timeout=60)
    assert f"the command (process {pid}) still runs" in line and f"kill -KILL {pid}" in line
    assert run.returncode == 7 and "still runs" not in rest


def test_standard_streams_pass_through(stage: Stage) -> None:
    where = ["--dataset", str(stage.dataset()), "--mount", str(stage.mount), "--quiet"]
    done = subprocess.run(
        [sys.executable, "-m", "fanstore", "run", *where, "--", "sh", "-c", "cat; echo no >&2"],
        env=stage.env,
        input=b"\x00\xff bytes",
        capture_output=True,
        timeout=60,
        check=True,
    )
    assert (done.stdout, done.stderr) == (b"\x00\xff bytes", b"no\n")


def test_the_command_gets_no_descriptor_of_ours_and_its_own_signals(stage: Stage) -> None:
    script = (
        "import os, signal\n"
        "names = [os.readlink(f'/proc/self/fd/{n}') for n in os.listdir('/proc/self/fd')"
        " if os.path.exists(f'/proc/self/fd/{n}')]\n"
        "print([n for n in names if 'socket' in n or 'lock' in n or 'signalfd' in n])\n"
        "print([s for s in signal.pthread_sigmask(signal.SIG_BLOCK, [])])\n"
    )
    done = stage.run(stage.dataset(), sys.executable, "-c", script)
    assert done.stdout == "[]\n[]\n"


def test_environment_of_the_command(stage: Stage) -> None:
    done = stage.run(stage.dataset(), "env", options=("--quiet",))
    env = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
    assert env["FANSTORE_MOUNT_PREFIX"] == str(stage.mount)
    assert env["LD_PRELOAD"].split(":")[0].endswith("libfanstore_preload.so")
    assert env["FANSTORE_JOB_DIR"].startswith(str(stage.local))


@pytest.mark.parametrize("in_place, codec", combined([False, True], ["store", "lz4", "zstd"]))
def test_content_under_every_codec(stage: Stage, in_place: bool, codec: str) -> None:
    files = {f"f{n}": os.urandom(100) * 500 * n for n in range(1, 5)}
    source = stage.source(files=files)
    dataset = stage.dataset(source, "data", "--codec", codec, "--block-size", "65536")
    plain = subprocess.run(
        [sys.executable, "-c", READ_ALL],
        env={**stage.env, "FANSTORE_MOUNT_PREFIX": str(source)},
        capture_output=True,
        text=True,
        check=True,
    )
    options = ("--in-place", "--verify") if in_place else ()
    done = stage.run(dataset, sys.executable, "-c", READ_ALL, options=options)
    assert done.stdout == plain.stdout
    assert stage.leftovers() == []


@pytest.mark.parametrize("option", [("--stage", "lazy"), ("--replicas", "2")])
def test_options_that_mean_nothing_in_place_are_refused(
    stage: Stage, option: tuple[str, str]
) -> None:
    options = ("--dataset", str(stage.dataset()), "--in-place", *option)
    done = stage.call("run", *options, "--", "true", code=125)
    assert f"{option[0]} means nothing with --in-place" in done.stderr


def test_in_place_copies_nothing(stage: Stage) -> None:
    script = 'find "$0" -name "*.fsp"; cat "$1"/f01 | wc -c'
    local, mount = str(stage.local), str(stage.mount)
    done = stage.run(stage.dataset(), "sh", "-c", script, local, mount, options=("--in-place",))
    assert done.stdout.split() == ["1001"]


def test_everything_made_is_private(stage: Stage) -> None:
    script = (
        "import os, sys\n"
        "for top, dirs, files in os.walk(sys.argv[1]):\n"
        "    for name in [*dirs, *files]:\n"
        "        st = os.lstat(os.path.join(top, name))\n"
        "        if (st.st_mode & 0o170000) != 0o120000 and st.st_mode & 0o077:\n"
        "            print(oct(st.st_mode), name)\n"
    )
    done = stage.run(stage.dataset(), sys.executable, "-c", script, str(stage.local))
    assert done.stdout == ""


def test_several_datasets_in_order(stage: Stage) -> None:
    first = stage.dataset(stage.source("one", {"a": b"first"}), "data1")
    second = stage.dataset(stage.source("two", {"a": b"second", "d/b": b"deep"}), "data2")
    p, q = stage.path / "p", stage.path / "q"
    datasets = ("--dataset", str(first), "--mount", str(p), "--dataset", str(second))
    script = f'cat {p}/a {q}/a {q}/d/b; echo "$FANSTORE_MOUNT_PREFIX $FANSTORE_MOUNT_PREFIX_2"'
    done = stage.call("run", *datasets, "--mount", str(q), "--", "sh", "-c", script)
    assert done.stdout == f"firstseconddeep{p} {q}\n"
    assert (stage.leftovers(), p.exists(), q.exists()) == ([], False, False)


@pytest.mark.soak
def test_one_dataset_at_two_prefixes(stage: Stage) -> None:
    dataset = str(stage.dataset(stage.source(files={"a": b"same"})))
    p, q = stage.path / "p", stage.path / "q"
    twice = ("--dataset", dataset, "--mount", str(p), "--dataset", dataset, "--mount", str(q))
    assert stage.call("run", *twice, "--", "cat", f"{p}/a", f"{q}/a").stdout == "samesame"


@pytest.mark.soak
def test_two_datasets_at_one_place_are_refused(stage: Stage) -> None:
    dataset = str(stage.dataset())
    done = stage.call("run", "--dataset", dataset, "--dataset", dataset, "--", "true", code=125)
    assert "two datasets would appear at" in done.stderr
    assert "leave one out if it is given twice" in done.stderr
    assert stage.leftovers() == []


@pytest.mark.parametrize("second", ["/sub", "/.."])
def test_nested_prefixes_are_refused(stage: Stage, second: str) -> None:
    dataset = str(stage.dataset())
    mounts = (str(stage.mount / "deep"), str(stage.mount / "deep") + second)
    options = [word for mount in mounts for word in ("--dataset", dataset, "--mount", mount)]
    done = stage.call("run", *options, "--", "true", code=125)
    assert "nested" in done.stderr
    assert stage.leftovers() == []


@pytest.mark.soak
def test_a_prefix_that_cannot_be_made_is_named(stage: Stage) -> None:
    (stage.path / "file").write_text("")
    prefix = stage.path / "file" / "below"
    where = ("--dataset", str(stage.dataset()), "--mount", str(prefix))
    done = stage.call("run", *where, "--", "true", code=125)
    assert str(prefix) in done.stderr and "cannot be created" in done.stderr
    where = ("--dataset", str(stage.path / "data"), "--mount", str(stage.path / "file"))
    assert "cannot be created" in stage.call("run", *where, "--", "true", code=125).stderr
    assert stage.leftovers() == []


def test_a_prefix_around_our_own_directory_is_refused(stage: Stage) -> None:
    where = ("--dataset", str(stage.dataset()), "--mount", str(stage.local))
    assert "own directory" in stage.call("run", *where, "--", "true", code=125).stderr


def test_deep_prefix_is_made_and_removed(stage: Stage) -> None:
    prefix = stage.path / "a" / "b" / "c"
    where = ("--dataset", str(stage.dataset()), "--mount", str(prefix))
    stage.call("run", *where, "--", "test", "-f", str(prefix / "f01"))
    assert not (stage.path / "a").exists()


@pytest.mark.soak
def test_a_strangers_file_in_our_prefix_stays_and_is_named(stage: Stage) -> None:
    dataset = stage.dataset()
    stranger, written = stage.mount / "stranger", stage.path / "written"
    script = (
        "import os, sys, time\n"
        "end = time.monotonic() + 60\n"
        "while not os.path.exists(sys.argv[1]) and time.monotonic() < end:\n"
        "    time.sleep(0.05)\n"
    )

    def write_when_mounted() -> None:
        end = time.monotonic() + 60
        while not stage.mount.is_dir() and time.monotonic() < end:
            time.sleep(0.05)
        stranger.write_text("not FanStore's")
        written.touch()

    writer = threading.Thread(target=write_when_mounted)
    writer.start()
    done = stage.run(dataset, sys.executable, "-c", script, str(written))
    writer.join()
    assert stranger.exists() and str(stranger) in done.stderr
    assert "left" not in stage.run(dataset, "true").stderr
    assert stranger.exists()


@pytest.mark.soak
def test_a_prefix_in_another_jobs_prefix_is_refused(stage: Stage) -> None:
    dataset = stage.dataset()
    inner = ("--dataset", str(dataset), "--mount", str(stage.mount / "sub"))
    outer = ("--dataset", str(dataset), "--mount", str(stage.path))
    stage.call("start", "--dataset", str(dataset), "--mount", str(stage.mount))
    try:
        assert "another job's" in stage.call("run", *inner, "--", "true", code=125).stderr
        assert "own directory" in stage.call("run", *outer, "--", "true", code=125).stderr
    finally:
        stage.call("stop")
    assert stage.leftovers() == []


@pytest.mark.soak
def test_parents_made_for_a_prefix_go_with_the_last_one_in_them(stage: Stage) -> None:
    dataset = str(stage.dataset())
    first, second = stage.path / "new" / "x" / "one", stage.path / "new" / "two"
    started = ("start", "--dataset", dataset, "--json", "--mount")
    jobs = [json.loads(stage.call(*started, str(p)).stdout)["job_id"] for p in (first, second)]
    stage.call("stop", "--job", jobs[0])
    assert second.exists() and not (stage.path / "new" / "x").exists()
    stage.call("stop", "--job", jobs[1])
    assert not (stage.path / "new").exists()


def listing(directory: Path) -> dict[str, tuple[int, int, int]]:
    """Mode, size and mtime of everything in a directory, itself included."""
    found = {}
    for path in [directory, *directory.rglob("*")]:
        st = path.lstat()
        found[str(path)] = (st.st_mode, st.st_size, st.st_mtime_ns)
    return found


@pytest.mark.soak
def test_the_original_directory_as_prefix_is_untouched(stage: Stage) -> None:
    source = stage.source(files={"a": b"one", "d/b": b"two"})
    dataset = stage.dataset(source)
    before = listing(source)
    where = ("--dataset", str(dataset), "--mount", str(source))
    done = stage.call("run", *where, "--", "sh", "-c", f"cd {source}/d && cat b && cat ../a")
    assert done.stdout == "twoone"
    assert "changed" not in done.stderr
    assert listing(source) == before
    assert stage.leftovers() == []


def test_drift_of_the_originals_is_warned_of(stage: Stage) -> None:
    source = stage.source()
    dataset = stage.dataset(source)
    for path in source.iterdir():
        path.write_bytes(b"changed")
    where = ("--dataset", str(dataset), "--mount", str(source))
    done = stage.call("run", *where, "--", "cat", str(source / "f03"))
    assert "has changed since it was packed" in done.stderr
    assert done.stdout.encode() == stage.files["f03"]


@pytest.mark.soak
def test_a_file_that_was_added_since_is_warned_of(stage: Stage) -> None:
    source = stage.source()
    dataset = stage.dataset(source)
    assert "has changed" not in stage.run(dataset, "true").stderr
    (source / "added").write_bytes(b"new")
    for _ in range(20):  # a start waits for it no longer than some milliseconds
        told = stage.run(dataset, "true").stderr
        if "has changed" in told:
            break
    assert f"{source} has changed since it was packed: 1 of " in told
    shutil.rmtree(source)
    assert "has changed" not in stage.run(dataset, "true").stderr


@pytest.mark.soak
def test_an_original_that_is_gone_has_not_changed(stage: Stage) -> None:
    """The prefix that is made in its place is not taken for it."""
    source = stage.source()
    words = ("run", "--dataset", str(stage.dataset(source)), "--mount", str(source), "--", "true")
    shutil.rmtree(source)
    for _ in range(3):  # a start waits for the look no longer than some milliseconds
        assert "changed" not in stage.call(*words).stderr


@pytest.mark.soak
def test_prefix_through_a_symbolic_link(stage: Stage) -> None:
    dataset = stage.dataset()
    real, link = stage.path / "real", stage.path / "link"
    real.mkdir()
    link.symlink_to(real)
    where = ("--dataset", str(dataset), "--mount", str(link / "m"))
    script = f"cat {link}/m/f01 {real}/m/f01 | wc -c"
    assert stage.call("run", *where, "--", "sh", "-c", script).stdout.strip() == "2002"
    assert list(real.iterdir()) == []


def test_default_prefix(stage: Stage) -> None:
    dataset = stage.dataset(name=f"data-{os.getpid()}")
    done = stage.call(
        "run",
        "--dataset",
        str(dataset),
        "--",
        "sh",
        "-c",
        "pwd; cd /; ls $FANSTORE_MOUNT_PREFIX | wc -l; echo $FANSTORE_MOUNT_PREFIX",
    )
    _, count, prefix = done.stdout.splitlines()
    assert count == "20"
    assert Path(prefix).name == dataset.name and prefix.startswith("/tmp/fanstore-")
    assert not Path(prefix).exists()


@pytest.mark.parametrize("odd", ["with space", "with:colon"])
@pytest.mark.soak
def test_library_path_that_ld_preload_cannot_hold(stage: Stage, odd: str) -> None:
    from fanstore import _native

    package = stage.path / odd / "fanstore"
    package.parent.mkdir()
    folder = Path(_native.__file__).parent.parent
    subprocess.run(["cp", "-r", str(folder), str(package)], check=True)
    dataset = stage.dataset()
    where = ["--dataset", str(dataset), "--mount", str(stage.mount), "--quiet"]
    script = (
        "import sys; sys.path.insert(0, sys.argv.pop(1)); import fanstore.cli; fanstore.cli.main()"
    )
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            script,
            str(package.parent),
            "run",
            *where,
            "--",
            "sh",
            "-c",
            f"echo $LD_PRELOAD; cat {stage.mount}/f01 | wc -c",
        ],
        env=stage.env,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    library, count = done.stdout.split()
    assert library.startswith(str(stage.local)) and count == "1001"
    assert stage.leftovers() == []


@pytest.mark.soak
def test_a_local_directory_too_deep_for_a_socket_address(stage: Stage) -> None:
    deep = stage.local.joinpath(*["d" * 50] * 4)
    deep.mkdir(parents=True)
    options = ("--local-dir", str(deep))
    assert stage.run(stage.dataset(), "true", options=options).returncode == 0
    assert list(deep.iterdir()) == []


def test_a_local_directory_that_takes_no_directories_is_named_at_once(stage: Stage) -> None:
    where = ("--dataset", str(stage.dataset()), "--mount", str(stage.mount), "--local-dir", "/proc")
    done = stage.call("run", *where, "--", "true", code=125)
    as_root = r"/proc/\.fanstore-[^ ]*: cannot be made: "
    assert re.search(as_root if os.getuid() == 0 else "/proc .*: not writable", done.stderr)


@pytest.mark.soak
def test_a_base_of_another_user_or_a_link_is_refused(stage: Stage) -> None:
    from fanstore.staging.base import user_name

    base = stage.local / f".fanstore-{user_name()}"
    base.symlink_to(stage.path)
    dataset = stage.dataset()
    assert "not a directory" in stage.run(dataset, "true", code=125).stderr
    if os.getuid() == 0:
        base.unlink()
        base.mkdir()
        os.chown(base, 65534, 65534)
        assert "another user" in stage.run(dataset, "true", code=125).stderr
        assert stat.S_IMODE(base.stat().st_mode) & 0o777 == 0o755


def test_concurrent_jobs_share_packs_and_prefix(stage: Stage) -> None:
    dataset = stage.dataset()
    where = ("--dataset", str(dataset), "--mount", str(stage.mount), "--quiet", "--")
    script = f"cat {stage.mount}/* | wc -c; sleep 0.5; cat {stage.mount}/f01 | wc -c"
    jobs = []
    for _ in range(4):
        jobs.append(
            subprocess.Popen(
                [sys.executable, "-m", "fanstore", "run", *where, "sh", "-c", script],
                env=stage.env,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    total = sum(len(content) for content in stage.files.values())
    for job in jobs:
        out, err = job.communicate(timeout=60)
        assert (job.returncode, err) == (0, "")
        assert out.split() == [str(total), "1001"]
    assert stage.leftovers() == []


@pytest.mark.soak
def test_an_early_end_leaves_the_others_prefix(stage: Stage) -> None:
    dataset = stage.dataset()
    where = ("--dataset", str(dataset), "--mount", str(stage.mount), "--quiet", "--")
    go = stage.path / "go"
    script = f"cd {stage.mount}; while ! test -e {go}; do sleep 0.1; done; cat f01 | wc -c"
    with stage.running("run", *where, "sh", "-c", script) as first:
        wait_for(stage.mount.exists, "the prefix")
        stage.run(dataset, "true")
        assert stage.mount.exists()
        go.touch()
        assert first.communicate(timeout=60)[0].strip() == "1001"
    assert stage.leftovers() == []


def started(stage: Stage, wrapper: int) -> int:
    """Waits for the command to say that it runs; its id."""
    wait_for((stage.path / "ready").exists, "the command")
    return command_of(wrapper)


SIGNALS = ("INT", "TERM", "HUP", "QUIT", "USR1", "USR2")
TRAPPING = "trap 'echo got {0}; exit 7' {0}; touch {1}/ready; while :; do sleep 0.1; done"


@pytest.mark.parametrize("name", sampled(SIGNALS, ["INT", "TERM", "USR1"]))
def test_signals_are_passed_on_once(stage: Stage, name: str) -> None:
    where = ("--dataset", str(stage.dataset()), "--mount", str(stage.mount), "--quiet", "--")
    script = TRAPPING.format(name, stage.path)
    with stage.running("run", *where, "bash", "-c", script) as run:
        started(stage, run.pid)
        run.send_signal(getattr(signal, f"SIG{name}"))
        assert run.communicate(timeout=60) == (f"got {name}\n", "")
        assert run.returncode == 7
    assert stage.leftovers() == []


def test_a_command_that_dies_of_a_signal(stage: Stage) -> None:
    where = ("--dataset", str(stage.dataset()), "--mount", str(stage.mount), "--quiet", "--")
    script = f"touch {stage.path}/ready; exec sleep 60"
    with stage.running("run", *where, "sh", "-c", script) as run:
        started(stage, run.pid)
        run.terminate()
        assert run.wait(60) == 128 + signal.SIGTERM
    assert stage.leftovers() == []


def run_command(stage: Stage, script: str) -> list[str]:
    """The command line of `fanstore run` for a bash script."""
    where = ("--dataset", str(stage.dataset()), "--mount", str(stage.mount), "--quiet", "--")
    return [sys.executable, "-m", "fanstore", "run", *where, "bash", "-c", script]


def test_ctrl_c_reaches_the_command_once(stage: Stage) -> None:
    go = stage.path / "go"
    script = (
        f"trap 'echo hit; touch {go}' INT; touch {stage.path}/ready; "
        f"until test -e {go}; do sleep 0.1; done; sleep 0.2"
    )
    pid, terminal = on_terminal(stage, run_command(stage, script))
    wait_for((stage.path / "ready").exists, "the command")
    os.write(terminal, b"\x03")
    shown = drain(terminal)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert shown.count("hit") == 1
    assert stage.leftovers() == []


def test_ctrl_c_ends_the_command_and_leaves_nothing(stage: Stage) -> None:
    script = f"touch {stage.path}/ready; sleep 60"
    pid, terminal = on_terminal(stage, run_command(stage, script))
    wait_for((stage.path / "ready").exists, "the command")
    time.sleep(0.1)
    os.write(terminal, b"\x03")
    drain(terminal)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 130
    assert stage.leftovers() == []


def test_ctrl_z_and_fg(stage: Stage) -> None:
    go = stage.path / "go"
    script = f"echo $$ >{stage.path}/ready; until test -e {go}; do sleep 0.1; done; echo done"
    job = shlex.join(run_command(stage, script))
    shell = ["bash", "-mc", f"{job}; echo stopped $?; read; fg >/dev/null; echo ended $?"]
    pid, terminal = on_terminal(stage, shell)
    ready = stage.path / "ready"
    wait_for(lambda: ready.exists() and ready.read_text(), "the command")
    command = int(ready.read_text())
    os.write(terminal, b"\x1a")
    wait_for(lambda: state(command) == "T", "the command to stop")
    go.touch()
    os.write(terminal, b"\n")
    shown = drain(terminal)
    os.close(terminal)
    os.waitpid(pid, 0)
    words = [line for line in shown.split("\r\n") if line.startswith(("stopped", "done", "ended"))]
    assert words == ["stopped 148", "done", "ended 0"]
    assert stage.leftovers() == []


def test_start_status_exec_stop(stage: Stage) -> None:
    dataset = stage.dataset()
    where = ("--dataset", str(dataset), "--mount", str(stage.mount))
    job = json.loads(stage.call("start", *where, "--json").stdout)
    try:
        out = stage.call("exec", "--", "cat", str(stage.mount / "f02")).stdout
        assert out.encode() == stage.files["f02"]
        assert stage.call("exec", "--job", job["job_id"], "--", "sh", "-c", "exit 9", code=9)
        stage.call("exec", "--", "no-such-command", code=127)
        status = json.loads(stage.call("status", "--json").stdout)
        assert status["state"] == "serving"
        assert status["counters"]["read_bytes"] >= len(out)
        assert status["datasets"][0]["copied_packs"] == 2
        assert job["job_id"] in stage.call("status").stdout
        by_hand = subprocess.run(
            ["cat", str(stage.mount / "f02")],
            env={**os.environ, **job["environment"]},
            capture_output=True,
            check=True,
        )
        assert by_hand.stdout == stage.files["f02"]
    finally:
        stage.call("stop", "--job", job["job_id"])
    assert not runs(job["daemon_pid"])
    assert stage.leftovers() == []
    assert "no job" in stage.call("status", code=125).stderr


@pytest.mark.soak
def test_several_daemons_must_be_named_but_for_status(stage: Stage) -> None:
    where = ("--dataset", str(stage.dataset()), "--mount", str(stage.mount))
    jobs = [json.loads(stage.call("start", *where, "--json").stdout)["job_id"] for _ in range(2)]
    assert "several jobs" in stage.call("stop", code=125).stderr
    assert "list them with --all" in stage.call("status", "--json", code=125).stderr
    shown = stage.call("status").stdout
    assert all(f"job {job}: serving" in shown for job in jobs)
    assert len(json.loads(stage.call("status", "--all", "--json").stdout)) == 2
    for job in jobs:
        stage.call("stop", "--job", job)
    assert stage.leftovers() == []


@pytest.mark.soak
def test_within_a_slurm_job_its_own_daemon_is_meant(stage: Stage) -> None:
    where = ("--dataset", str(stage.dataset()), "--mount", str(stage.mount), "--json")
    started = {id: stage.call("start", *where, SLURM_JOB_ID=id).stdout for id in ("7", "8")}
    names = {id: json.loads(text)["job_id"] for id, text in started.items()}
    for id, name in names.items():
        assert name in stage.call("status", SLURM_JOB_ID=id).stdout
    assert "no job" in stage.call("stop", code=125, SLURM_JOB_ID="9").stderr
    assert "several jobs" in stage.call("stop", code=125).stderr
    stage.call("stop", SLURM_JOB_ID="7")
    assert "no job" in stage.call("stop", code=125, SLURM_JOB_ID="7").stderr
    assert names["8"] in stage.call("status", "--job", names["8"], SLURM_JOB_ID="7").stdout
    stage.call("stop")
    assert stage.leftovers() == []


def test_a_run_inside_a_job_is_refused(stage: Stage) -> None:
    """It would hide the mounts of that; where the job has ended there is nothing to hide."""
    dataset = stage.dataset()
    inner = [sys.executable, "-m", "fanstore", "run", "--dataset", str(dataset),
             "--mount", str(stage.path / "inner"), "--quiet", "--", "true"]  # fmt: skip
    script = f"cat {stage.mount}/f01 | wc -c; {shlex.join(inner)}; echo $?; echo $FANSTORE_JOB_DIR"
    done = stage.run(dataset, "sh", "-c", script)
    count, code, job = done.stdout.split()
    assert (count, code) == ("1001", "125")
    assert f"a command of a FanStore job already ({job})" in done.stderr
    assert not (stage.path / "inner").exists()
    where = ("--dataset", str(dataset), "--mount", str(stage.mount), "--quiet", "--")
    stage.call("run", *where, "test", "-e", f"{stage.mount}/f01", FANSTORE_JOB_DIR=job)


def test_stop_refuses_a_job_with_a_wrapper(stage: Stage) -> None:
    done = stage.run(stage.dataset(), sys.executable, "-m", "fanstore", "stop", code=125)
    assert "ends with its command" in done.stderr


def test_a_started_daemon_ends_at_sigterm(stage: Stage) -> None:
    where = ("--dataset", str(stage.dataset()), "--mount", str(stage.mount))
    job = json.loads(stage.call("start", *where, "--json").stdout)
    os.kill(job["daemon_pid"], signal.SIGTERM)
    wait_for(lambda: not runs(job["daemon_pid"]), "the daemon's end")
    assert stage.leftovers() == []


def test_a_daemon_without_a_command_to_end_serves_on(stage: Stage) -> None:
    """SIGTERM to the daemon alone does not take the files from the command."""
    where = ("--dataset", str(stage.dataset()), "--mount", str(stage.mount), "--quiet", "--")
    go = stage.path / "go"
    script = (
        f"touch {stage.path}/ready; until test -e {go}; do sleep 0.1; done; cat {stage.mount}/f01"
    )
    with stage.running("run", *where, "sh", "-c", script) as run:
        started(stage, run.pid)
        os.kill(daemon_of(run.pid), signal.SIGTERM)
        time.sleep(0.1)
        go.touch()
        out, err = run.communicate(timeout=60)
        assert (run.returncode, out.encode(), err) == (0, stage.files["f01"], "")


def test_pipe_on_standard_output_closes_with_the_command(stage: Stage) -> None:
    where = ("--dataset", str(stage.dataset()), "--mount", str(stage.mount), "--quiet", "--")
    script = "exec 1>&- 2>&-; sleep 60"
    with stage.running("run", *where, "sh", "-c", script) as run:
        assert run.stdout is not None
        wait_for(lambda: command_of(run.pid), "the command")
        run.terminate()
        assert run.stdout.read() == ""
