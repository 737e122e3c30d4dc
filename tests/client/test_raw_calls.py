"""Programs and libraries that make system calls by themselves, without libc, beside a plain
directory: what Rust's rustix does, and with it safetensors."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from serving import Stage, make_stage

CLIENTS = Path(__file__).with_name("raw")
FILES = {"a.txt": b"hello\n", "sub/deep": b"deep\n", "sub/other": bytes(range(256)) * 1200}

IN_PYTHON = """
import ctypes, sys
library = ctypes.CDLL(sys.argv[1])
library.all_calls(sys.argv[2].encode())
print("registers", library.changed_registers((sys.argv[2] + "/a.txt").encode()))
"""

FORBIDDEN = """
import ctypes, sys
MDWE, GAIN_NO_EXEC = 65, 1
if ctypes.CDLL(None).prctl(MDWE, GAIN_NO_EXEC, 0, 0, 0) != 0:
    sys.exit(77)
"""

REFUSED = FORBIDDEN + "ctypes.CDLL(sys.argv[1]).all_calls(sys.argv[2].encode())"
DOCTOR = FORBIDDEN + "from fanstore.cli import doctor; print(doctor.examine_all().libraries)"

SAFETENSORS = """
import os, sys
import numpy as np
from safetensors.numpy import load_file, save_file
path = os.path.join(sys.argv[1], "ckpt", "model.safetensors")
os.makedirs(os.path.dirname(path))
for turn in range(2):
    save_file({"a": np.arange(1000.0) + turn}, path)
    print(load_file(path)["a"].sum(), os.listdir(os.path.dirname(path)), os.stat(path).st_size)
try:
    save_file({"a": np.arange(3)}, os.path.join(sys.argv[1], "none", "x"))
except Exception as error:
    print("os error 2" in str(error))
"""

GO = r"""
__asm__(".section .note.go.buildid,\"a\",@note\n"
        ".long 4, 4, 4; .asciz \"Go\"; .byte 0; .long 1; .text");
int main(void) { return 0; }
"""

pytestmark = pytest.mark.skipif(
    os.uname().machine != "x86_64", reason="the calls are redirected on x86_64"
)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The client as a library and as a program."""
    folder = tmp_path_factory.mktemp("raw")
    source = str(CLIENTS / "rawlib.c")
    for name, flags in (("lib.so", ["-shared", "-fPIC"]), ("program", ["-DMAIN"])):
        subprocess.run(["cc", "-O2", *flags, "-o", str(folder / name), source], check=True)
    return folder


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return make_stage(tmp_path)


def both(stage: Stage, *command: str, original: bool = False) -> tuple[str, str]:
    """What a command prints on a plain directory and in a mount; its last argument is the place.
    original: the prefix is the directory that the dataset was made of."""
    source = stage.source(files=FILES)
    (source / "link").symlink_to("a.txt")
    dataset = stage.dataset(source)
    plain = stage.path / "copy"
    shutil.copytree(source, plain, symlinks=True)
    mount = source if original else stage.mount
    expected = subprocess.run(
        [*command, str(plain)], capture_output=True, text=True, check=True
    ).stdout
    where = ("--dataset", str(dataset), "--mount", str(mount))
    out = ("--output-dir", str(stage.path / "out"), "--quiet", "--")
    done = stage.call("run", *where, *out, *command, str(mount))
    assert done.stderr == ""
    return expected, done.stdout


@pytest.mark.parametrize("original", [False, True])
def test_a_program_does_as_on_a_plain_directory(stage: Stage, built: Path, original: bool) -> None:
    expected, found = both(stage, str(built / "program"), original=original)
    assert found == expected
    assert found.endswith("registers 0\n")
    assert (stage.path / "out" / "ckpt" / "model").read_bytes() == b"other weights"
    if original:
        assert not (stage.path / "plain" / "ckpt").exists()


def test_a_library_that_python_loads_does_too(stage: Stage, built: Path) -> None:
    expected, found = both(stage, sys.executable, "-c", IN_PYTHON, str(built / "lib.so"))
    assert found == expected
    assert found.endswith("registers 0\n")
    assert (stage.path / "out" / "ckpt" / "model").read_bytes() == b"other weights"


def test_redirection_can_be_turned_off(stage: Stage, built: Path) -> None:
    dataset = stage.dataset(stage.source(files=FILES))
    command = (str(built / "program"), str(stage.mount))
    off = {"FANSTORE_REDIRECT": "0", "FANSTORE_OUTPUT_DIR": str(stage.path / "out")}
    where = ("--dataset", str(dataset), "--mount", str(stage.mount), "--quiet", "--")
    assert "a.txt -2" in stage.call("run", *where, *command, **off).stdout


def test_where_code_may_not_be_changed_the_report_says_so(stage: Stage, built: Path) -> None:
    dataset = stage.dataset(stage.source(files=FILES))
    library = str(built / "lib.so")
    command = (sys.executable, "-c", REFUSED, library, str(stage.mount))
    where = ("--dataset", str(dataset), "--mount", str(stage.mount), "--quiet", "--")
    done = subprocess.run(
        [sys.executable, "-m", "fanstore", "run", *where, *command],
        env=stage.env, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    if done.returncode == 77:
        pytest.skip("this kernel cannot forbid it")
    assert f"{library} makes system calls by itself" in done.stderr
    assert "needs --trap" in done.stderr


@pytest.mark.parametrize("trap", [False, True])
def test_a_program_in_go_is_named_in_the_report(stage: Stage, tmp_path: Path, trap: bool) -> None:
    (tmp_path / "go.c").write_text(GO)
    program = str(tmp_path / "program")
    subprocess.run(["cc", "-o", program, str(tmp_path / "go.c")], check=True)
    dataset = stage.dataset(stage.source(files=FILES))
    where = ("--dataset", str(dataset), "--mount", str(stage.mount), "--quiet")
    # Not the command itself: of that its start says so already.
    command = (*where, *(["--trap"] if trap else []), "--", "sh", "-c", f"{program}; true")
    said = stage.call("run", *command).stderr
    assert (f"{program} makes system calls by itself" in said) != trap


def test_doctor_says_where_code_may_not_be_changed(stage: Stage) -> None:
    said = stage.call("doctor").stdout
    assert "system calls of Rust libraries: redirected\n" in said
    done = subprocess.run(
        [sys.executable, "-c", DOCTOR], env=stage.env, capture_output=True, text=True, check=False
    )
    if done.returncode == 77:
        pytest.skip("this kernel cannot forbid it")
    assert "forbids to change loaded code" in done.stdout and "--trap" in done.stdout


def test_safetensors_saves_into_the_mount(stage: Stage) -> None:
    pytest.importorskip("safetensors")
    pytest.importorskip("numpy")
    expected, found = both(stage, sys.executable, "-c", SAFETENSORS)
    assert found == expected
    assert found.endswith("True\n")
    assert (stage.path / "out" / "ckpt" / "model.safetensors").stat().st_size > 8000
