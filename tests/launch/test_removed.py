"""A job's directory, or a part of it, is removed while the job runs, as cleaners of /tmp do: no
program goes on as if its mount were an empty directory, and the job says so at its end."""

from __future__ import annotations

import errno
import json
import os
import re
import sys
from pathlib import Path

import pytest
from serving import Stage, make_stage
from soak import combined, sampled

from fanstore._native import preload_path

LOADED_BY_ITS_PATH = pytest.mark.skipif(
    re.search("[ :]", str(preload_path())) is not None,
    reason="the library is loaded by a link in the job's directory, with which it goes",
)

# Removes what the first argument names and starts `ls` in many ways: what each says, or its errno.
START = r"""
import ctypes, errno, json, os, subprocess, sys
root, job = os.environ["FANSTORE_MOUNT_PREFIX"], os.environ["FANSTORE_JOB_DIR"]
assert os.system(f"FANSTORE_OFF=1 rm -r {job}/{sys.argv[1].rstrip('.')}") == 0
ls, quiet = ["ls", root], dict(stdout=subprocess.PIPE, text=True)

def forked(call):
    reads, writes = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.dup2(writes, 1)
            call()
        except OSError as error:
            os._exit(error.errno)
    os.close(writes)
    said = os.read(reads, 999).decode()
    return said or os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

def popened():
    libc = ctypes.CDLL(None, use_errno=True)
    libc.popen.restype = ctypes.c_void_p
    return libc.popen(f"ls {root}".encode(), b"r") or ctypes.get_errno()

WAYS = {
    "exec": lambda: forked(lambda: os.execv("/bin/ls", ls)),
    "search": lambda: forked(lambda: os.execvp("ls", ls)),
    "without variables": lambda: forked(lambda: os.execve("/bin/ls", ls, {})),
    "vfork": lambda: subprocess.run(ls, close_fds=False, **quiet).stdout,
    "fork": lambda: subprocess.run(ls, preexec_fn=lambda: None, **quiet).stdout,
    "spawn": lambda: os.posix_spawn("/bin/ls", ls, os.environ),
    "system": lambda: forked(lambda: os._exit(os.system("ls " + root) & 0xff)),
    "popen": popened,
    "from outside the job": lambda: subprocess.run(
        ["sh", "-c", f"env -u FANSTORE_OFF ls {root}"], env={**os.environ, "FANSTORE_OFF": "1"},
        **quiet).returncode,
}
for name, way in WAYS.items():
    try:
        told = way()
    except OSError as error:
        told = error.errno
    print(json.dumps([name, told]), flush=True)
print(json.dumps(["a program without the job", subprocess.run(
    ["echo", "on"], env={**os.environ, "FANSTORE_OFF": "1"}, **quiet).stdout]))
"""
NO = {"system": 0xFF, "from outside the job": 125, "a program without the job": "on\n"}


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return make_stage(tmp_path)


@LOADED_BY_ITS_PATH
@pytest.mark.parametrize("mount, part", combined(["made", "original"], [".", "segment"]))
def test_no_program_is_started_that_would_not_see_the_mounts(
    stage: Stage, part: str, mount: str
) -> None:
    source = stage.source()
    packed = str(stage.dataset(source))
    where = str(stage.mount if mount == "made" else source)
    done = stage.call(
        *("run", "--dataset", packed, "--mount", where, "--", sys.executable, "-c", START, part),
        code=125,
    )
    told = dict(map(json.loads, done.stdout.splitlines()))
    expected = {name: NO.get(name, errno.EIO) for name in told}
    if mount == "original":  # nothing tells it from a program whose job is over
        expected["from outside the job"] = 0
    assert told == expected
    assert "segment was removed while the job runs" in done.stderr
    assert ("cannot be joined" in done.stderr) == (mount == "made")
    assert "by somebody else: segment" in done.stderr
    assert "Traceback" not in done.stderr and "died" not in done.stderr
    assert stage.leftovers() == []


@pytest.mark.parametrize("part", sampled(["placeholder", "out", "sock"], ["out"]))
def test_a_part_that_is_missing_is_named_at_the_end(stage: Stage, part: str) -> None:
    script = f'rm -r "$FANSTORE_JOB_DIR/{part}"; ls "{stage.mount}"'
    done = stage.run(stage.dataset(), "sh", "-c", script, code=125)
    assert done.stdout.split() == sorted(stage.files)
    assert f"by somebody else: {part};" in done.stderr
    assert stage.leftovers() == []


def test_what_is_written_then_fails_and_is_not_missing(stage: Stage) -> None:
    program = (
        "import os, shutil\nroot = os.environ['FANSTORE_MOUNT_PREFIX']\n"
        "open(root + '/early', 'w').write('x')\nshutil.rmtree(os.environ['FANSTORE_JOB_DIR'])\n"
        "try: open(root + '/late', 'w')\nexcept OSError as error: print(error.errno)\n"
    )
    out = ("--output-dir", str(stage.path / "out"))
    done = stage.run(stage.dataset(), sys.executable, "-c", program, options=out, code=125)
    assert done.stdout.split() == [str(errno.EIO)]
    assert "by somebody else: " in done.stderr
    early = stage.path / "out/early"
    assert not early.exists() or early.read_text() == "x"


def test_all_of_the_local_directory_is_removed(stage: Stage) -> None:
    script = 'rm -r "$1"/.fanstore-*; echo "$(<"$0/f01")"'
    where = (str(stage.mount), str(stage.local))
    done = stage.run(stage.dataset(), "bash", "-c", script, *where, code=125)
    assert f"{stage.mount}/f01: Input/output error" in done.stderr
    assert stage.leftovers() == []


@LOADED_BY_ITS_PATH
@pytest.mark.parametrize("mount", ["made", "original"])
def test_what_outlives_its_job_starts_programs(stage: Stage, mount: str) -> None:
    """The job's directory is gone then, too."""
    source, fifo = stage.source(), stage.path / "fifo"
    os.mkfifo(fifo)
    outlives = (
        'while [ -e "$FANSTORE_JOB_DIR" ]; do sleep 0.1; done; '
        '{ /bin/echo here; sh -c "/bin/echo there"; } >"$0" 2>&1'
    )
    where = str(stage.mount if mount == "made" else source)
    packed = str(stage.dataset(source))
    script = f"setsid sh -c '{outlives}' {fifo} >/dev/null 2>&1 & exit 0"
    stage.call("run", "--dataset", packed, "--mount", where, "--quiet", "--", "sh", "-c", script)
    assert fifo.read_text().split() == ["here", "there"]


def test_a_running_job_holds_a_lock_that_cleaners_heed(stage: Stage) -> None:
    """systemd-tmpfiles passes by a directory that is locked, with all below it."""
    script = 'flock -n "$FANSTORE_JOB_DIR/../.." true; echo $?'
    done = stage.run(stage.dataset(), "sh", "-c", script)
    assert done.stdout.split() == ["1"]
