"""fanstore doctor --check: which mode a program needs. Programs are made here byte by byte."""

from __future__ import annotations

import json
import os
import platform
import random
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from fanstore.cli.doctor import command
from fanstore.programs import elf
from fanstore.programs.check import (
    Mode,
    Verdict,
    check,
    entry_hint,
    glibc_needed,
    interpreter_of,
    run_by_env,
)

LOADER = "/lib64/ld-linux-x86-64.so.2"
X86 = platform.machine() == "x86_64"
needs_x86 = pytest.mark.skipif(not X86, reason="the programs made here are for x86_64")
EXEC, DYN = 2, 3


def program(
    path: Path,
    *,
    loader: str | None = LOADER,
    names: tuple[str, ...] = (),
    needed: tuple[str, ...] = (),
    note: bytes = b"",
    kind: int = DYN,
    machine: int = 62,
    bits: int = 64,
    mode: int = 0o755,
) -> Path:
    """A file that the kernel and the loader would read as this program."""
    strings = b"\0" + b"".join(name.encode() + b"\0" for name in (*needed, *names))
    at = {name: strings.index(b"\0" + name.encode() + b"\0") + 1 for name in needed}
    word = "Q" if bits == 64 else "I"
    parts: list[tuple[int, bytes]] = []
    if loader is not None:
        parts.append((3, loader.encode() + b"\0"))
    if note:
        parts.append((4, note))
    head, each = (64, 56) if bits == 64 else (52, 32)
    start = head + each * (len(parts) + 2)
    where = [start + sum(len(data) for _, data in parts[:i]) for i in range(len(parts))]
    text_at = start + sum(len(data) for _, data in parts)
    entries = [*((1, at[name]) for name in needed), (5, text_at), (10, len(strings)), (0, 0)]
    dynamic = b"".join(struct.pack(f"<{word}{word}", *entry) for entry in entries)
    parts += [(1, strings), (2, dynamic)]
    where += [text_at, text_at + len(strings)]
    ident = b"\x7fELF" + bytes([bits // 32, 1, 1]) + bytes(9)
    header = struct.pack(
        f"<HHI{word}{word}{word}IHHHHHH", kind, machine, 1, 0, head, 0, 0, head, each, len(parts),
        0, 0, 0,
    )  # fmt: skip
    body = ident + header
    for (tag, data), offset in zip(parts, where, strict=True):
        if bits == 64:
            body += struct.pack("<IIQQQQQQ", tag, 4, offset, offset, 0, len(data), len(data), 1)
        else:
            body += struct.pack("<IIIIIIII", tag, offset, offset, 0, len(data), len(data), 4, 1)
    path.write_bytes(body + b"".join(data for _, data in parts))
    path.chmod(mode)
    return path


def said(verdict: Verdict) -> str:
    return "; ".join(verdict.reasons)


def script(path: Path, line: str, mode: int = 0o755) -> Path:
    path.write_text(f"{line}\necho hello\n")
    path.chmod(mode)
    return path


@needs_x86
def test_dynamic_program_runs_with_the_preload(tmp_path: Path) -> None:
    verdict = check(str(program(tmp_path / "p", needed=("libc.so.6",), names=("GLIBC_2.17",))))
    assert (verdict.mode, verdict.exit_code) == (Mode.PRELOAD, 0)


@needs_x86
def test_shared_libaio_and_liburing_need_no_trap(tmp_path: Path) -> None:
    """The preload library reads for the one, and refuses the other's rings as --trap would."""
    for library, name in (("liburing.so.2", "io_uring_queue_init"), ("libaio.so.1", "io_submit")):
        made = program(tmp_path / "p", needed=("libc.so.6", library), names=(name,))
        assert check(str(made)).mode is Mode.PRELOAD


@needs_x86
@pytest.mark.parametrize(
    ("made", "word"),
    [
        ({"loader": None, "kind": EXEC}, "statically linked"),
        ({"loader": None, "kind": DYN}, "position-independent, statically linked"),
        ({"loader": None, "kind": EXEC, "note": b"\4\0\0\0Go\0\0abcd"}, "written in Go"),
        ({"note": b"\4\0\0\0\4\0\0\0\4\0\0\0Go\0\0abcd"}, "Go, whose runtime"),
        ({"names": ("io_uring_setup",)}, "has io_uring_setup in it"),
        ({"names": ("puts", "io_uring_enter")}, "has io_uring_enter in it"),
    ],
)
def test_needs_trap(tmp_path: Path, made: dict[str, object], word: str) -> None:
    verdict = check(str(program(tmp_path / "p", **made)))  # type: ignore[arg-type]
    assert (verdict.mode, verdict.exit_code) == (Mode.TRAP, 3)
    assert word in said(verdict)


@needs_x86
def test_other_loaders_need_trap(tmp_path: Path) -> None:
    for name, word in (("ld-musl-x86_64.so.1", "musl"), ("linker64", "not glibc's")):
        loader = tmp_path / name
        loader.write_bytes(b"")
        verdict = check(str(program(tmp_path / "p", loader=str(loader))))
        assert (verdict.mode, word in said(verdict)) == (Mode.TRAP, True)


@needs_x86
def test_its_own_older_glibc(tmp_path: Path) -> None:
    loader = tmp_path / "ld-linux-x86-64.so.2"
    loader.write_bytes(b"")
    program(tmp_path / "libc.so.6", loader=None, names=("GLIBC_2.2.5", "GLIBC_2.9", "GLIBC_2.24"))
    path = str(program(tmp_path / "p", loader=str(loader), names=("GLIBC_2.9",)))
    assert check(path, (2, 24)).mode is Mode.PRELOAD
    verdict = check(path, (2, 34))
    assert (verdict.mode, verdict.exit_code) == (Mode.TRAP, 3)
    assert "its glibc is 2.24, and the library was built for 2.34" in said(verdict)


@needs_x86
def test_a_glibc_newer_than_this_machines(tmp_path: Path) -> None:
    verdict = check(str(program(tmp_path / "p", names=("GLIBC_2.3", "GLIBC_2.999"))))
    assert (verdict.mode, verdict.exit_code) == (Mode.UNUSABLE, 126)
    assert "needs glibc 2.999; 2." in said(verdict)


@pytest.mark.parametrize(
    ("machine", "bits", "word"), [(3, 32, "i386, 32 bits"), (183, 64, "aarch64"), (62, 32, "32 b")]
)
def test_foreign_programs_are_out_of_reach(
    tmp_path: Path, machine: int, bits: int, word: str
) -> None:
    if machine == 183 and not X86:
        pytest.skip("no foreign machine here")
    path = program(tmp_path / "p", machine=machine, bits=bits, loader="/lib/ld-linux.so.2")
    verdict = check(str(path))
    assert (verdict.mode, verdict.exit_code) == (Mode.NEITHER, 4)
    assert word in said(verdict)


@needs_x86
@pytest.mark.skipif(os.getuid() != 0, reason="only root gives files away")
def test_set_user_id(tmp_path: Path) -> None:
    if os.statvfs(tmp_path).f_flag & os.ST_NOSUID:
        pytest.skip("set-user-ID means nothing here")
    for bits in (0o4755, 0o2755):
        path = program(tmp_path / "p", mode=0o755)
        os.chown(path, 12345, 12345)
        path.chmod(bits)
        assert "gains privileges" in said(check(str(path)))
        os.chown(path, 0, 0)
        path.chmod(bits)
        assert check(str(path)).mode is Mode.PRELOAD  # it gains nothing that root has not


@needs_x86
def test_missing_loader(tmp_path: Path) -> None:
    verdict = check(str(program(tmp_path / "p", loader="/nowhere/ld-linux-x86-64.so.2")))
    assert (verdict.mode, verdict.exit_code) == (Mode.UNUSABLE, 126)
    assert "its loader /nowhere/ld-linux-x86-64.so.2 is not there" in said(verdict)


@needs_x86
def test_scripts_are_as_their_interpreters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    static = program(tmp_path / "static", loader=None, kind=EXEC)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    inner = script(tmp_path / "inner", f"#! {static} -x")
    for line, through in (
        (f"#!{static}", [str(static)]),
        (f"#!{inner} a b", [str(inner), str(static)]),
        ("#!/usr/bin/env static", ["/usr/bin/env", str(static)]),
        ("#!/usr/bin/env -S A=1 static -x", ["/usr/bin/env", str(static)]),
    ):
        verdict = check(str(script(tmp_path / "s", line)))
        assert (verdict.mode, verdict.through) == (Mode.TRAP, through), line
    verdict = check(str(script(tmp_path / "s", "echo no line of that kind")))
    assert (verdict.mode, verdict.through) == (Mode.PRELOAD, ["/bin/sh"])


@pytest.mark.parametrize(
    ("line", "code", "word"),
    [
        ("#!", 126, "names no interpreter"),
        ("#!   ", 126, "names no interpreter"),
        ("#!/nowhere/perl", 127, "/nowhere/perl: No such file"),
        ("#!/tmp", 126, "/tmp: is a directory"),
        ("#!/usr/bin/env nowhere-at-all", 127, "env finds no nowhere-at-all"),
        ("#!/etc/passwd", 126, "/etc/passwd: is not executable"),
    ],
)
def test_scripts_that_cannot_start(tmp_path: Path, line: str, code: int, word: str) -> None:
    verdict = check(str(script(tmp_path / "s", line)))
    assert (verdict.mode, verdict.exit_code) == (Mode.UNUSABLE, code)
    assert word in said(verdict)


def test_scripts_in_a_circle(tmp_path: Path) -> None:
    script(tmp_path / "a", f"#!{tmp_path}/b")
    script(tmp_path / "b", f"#!{tmp_path}/a")
    verdict = check(str(tmp_path / "a"))
    assert (verdict.mode, verdict.exit_code) == (Mode.UNUSABLE, 126)
    assert "without end" in said(verdict)


def test_what_is_no_program(tmp_path: Path) -> None:
    (tmp_path / "empty").touch(0o755)
    (tmp_path / "binary").write_bytes(b"MZ\0\0 something")
    (tmp_path / "binary").chmod(0o755)
    (tmp_path / "dangling").symlink_to("nothing")
    (tmp_path / "plain").write_text("text")
    (tmp_path / "plain").chmod(0o644)
    os.mkfifo(tmp_path / "fifo", 0o755)
    for name, code, word in (
        ("empty", 126, "is empty"),
        ("binary", 126, "neither an ELF file nor a script"),
        ("dangling", 127, "No such file"),
        ("plain", 126, "is not executable"),
        ("fifo", 126, "is no regular file"),
        (".", 126, "is a directory"),
        ("nothing/at/all", 127, "no such file"),
        ("plain/below", 127, "no such file"),
    ):
        verdict = check(f"{tmp_path}/{name}")
        assert (verdict.mode, verdict.exit_code) == (Mode.UNUSABLE, code), name
        assert word in said(verdict)
    assert check("").exit_code == check("nowhere-at-all").exit_code == 127


@pytest.mark.parametrize("base", [sys.executable, "made"])
def test_damaged_files_have_an_answer(tmp_path: Path, base: str) -> None:
    whole = program(tmp_path / "whole", needed=("libc.so.6",), names=("GLIBC_2.17",))
    image = (whole if base == "made" else Path(os.path.realpath(base))).read_bytes()[: 1 << 16]
    path = tmp_path / "p"
    path.touch(0o755)
    chance = random.Random(1)
    lengths = [*range(4, 200), *(chance.randrange(len(image)) for _ in range(100))]
    for length in lengths:
        path.write_bytes(image[:length])
        assert check(str(path)).exit_code in (0, 3, 4, 126)
    for _ in range(300):
        bent = bytearray(image)
        for _ in range(chance.randrange(1, 6)):
            at = chance.randrange(4, min(len(bent), 400))
            bent[at] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
        path.write_bytes(bent)
        verdict = check(str(path), (2, 34))
        assert verdict.reasons and verdict.exit_code in (0, 3, 4, 126)


@pytest.mark.parametrize(
    ("at", "form", "value"),
    [
        (32, "<Q", 1 << 63),  # program headers
        (54, "<H", 55),  # their size
        (56, "<H", 65535),  # their count
        (64 + 8, "<Q", 1 << 40),  # the loader's offset
        (64 + 32, "<Q", 1 << 40),  # the loader's length
        (64 + 56 * 2 + 32, "<Q", 1 << 62),  # the dynamic section's length
        (4, "<B", 7),  # class
        (5, "<B", 0),  # byte order
    ],
)
def test_damage_is_named(tmp_path: Path, at: int, form: str, value: int) -> None:
    path = program(tmp_path / "p", needed=("libc.so.6",))
    image = bytearray(path.read_bytes())
    struct.pack_into(form, image, at, value)
    path.write_bytes(image)
    with path.open("rb") as file:
        if at == 64 + 56 * 2 + 32:
            assert elf.read(file).needed == ("libc.so.6",)  # its end comes first
        else:
            with pytest.raises(elf.Damaged, match="damaged ELF file: "):
                elf.read(file)


def test_first_lines() -> None:
    assert interpreter_of(b"#!/bin/sh\n") == ("/bin/sh", "")
    assert interpreter_of(b"#! \t/bin/sh  -e  x \n") == ("/bin/sh", "-e  x")
    assert interpreter_of(b"#!/bin/" + b"x" * 300) == ("/bin/" + "x" * 249, "")
    assert run_by_env("python3") == "python3"
    assert run_by_env("-S python3 -u") == "python3"
    assert run_by_env("-Spython3 -u") == "python3"
    assert run_by_env("-S -i -u HOME A=b perl -w") == "perl"
    assert run_by_env("python3 -u") == "python3 -u"  # one word, and no such program
    assert run_by_env("") is run_by_env("-i") is run_by_env("-S '") is run_by_env("-S") is None


def test_command_line(tmp_path: Path) -> None:
    static = program(tmp_path / "static", loader=None, kind=EXEC)
    run = lambda *words: CliRunner().invoke(command, words, standalone_mode=False)  # noqa: E731
    result = run("--check", str(static), "nowhere-at-all")
    assert result.return_value == 127
    assert "nowhere-at-all: cannot be started\n  not found in PATH\n" in result.output
    result = run("--check", "--json", str(static))
    (row,) = json.loads(result.output)
    assert row["program"] == row["path"] == str(static)
    assert row["exit_code"] == result.return_value == (3 if X86 else 4)
    if X86:
        assert row["mode"] == "--trap"
    assert run("--check", "sh").return_value == 0
    for words in (("--check",), ("sh",)):
        assert "go together" in str(run(*words).exception)


def test_names_that_are_no_text(tmp_path: Path) -> None:
    path = os.path.join(os.fsencode(tmp_path), b"caf\xe9")
    shutil.copy(script(tmp_path / "s", "#!/nowhere/\udce9".encode("utf-8", "replace").decode()),
                path)  # fmt: skip
    result = CliRunner().invoke(command, ["--check", os.fsdecode(path)], standalone_mode=False)
    assert result.return_value == 127 and "caf\\xe9" in result.output


def test_hint_for_static_commands(tmp_path: Path) -> None:
    static = program(tmp_path / "static", loader=None, kind=EXEC)
    hint = entry_hint(str(static))
    assert hint is not None and hint.startswith(f"{static} needs --trap to see the mount: ")
    assert hint.endswith("statically linked: no loader brings the library in")
    through = script(tmp_path / "through", f"#!{static}")
    assert (entry_hint(str(through)) or "").startswith(f"{through} needs --trap")
    assert entry_hint("sh") is entry_hint("nowhere-at-all") is entry_hint("") is None
    assert entry_hint(str(script(tmp_path / "s", "#!/bin/sh"))) is None


def test_the_library_says_which_glibc_it_needs() -> None:
    from fanstore._native import preload_path

    needed = glibc_needed(os.fspath(preload_path()))
    assert needed is not None and (2, 2) <= needed <= (2, 99)
    assert glibc_needed("/etc/passwd") is glibc_needed("/nowhere") is None


@needs_x86
def test_run_says_that_a_static_command_needs_trap(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "file").write_text("content\n")
    (tmp_path / "local").mkdir(mode=0o700)
    static = program(tmp_path / "static", loader=None, kind=EXEC)
    fanstore = [sys.executable, "-m", "fanstore"]
    data = str(tmp_path / "data")
    subprocess.run([*fanstore, "prepare", str(tmp_path / "source"), data], check=True, timeout=60)

    def stderr(*options: str, command: str) -> str:
        serving = ["--dataset", data, "--mount", str(tmp_path / "mount")]
        local = ["--local-dir", str(tmp_path / "local")]
        words = [*fanstore, "run", *serving, *local, *options, "--", command]
        return subprocess.run(words, capture_output=True, text=True, timeout=60).stderr

    hint = f"fanstore: {static} needs --trap to see the mount: "
    assert hint in stderr(command=str(static))
    assert "statically linked" not in stderr("--quiet", command=str(static))
    assert "statically linked" not in stderr("--trap", command=str(static))
