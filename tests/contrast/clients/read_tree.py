"""The files that the cases of clients/calls_*.c read: in the dataset, and made again under a mount.

Small, deterministic, with one file of each kind that a call may treat in its own way.
"""

from __future__ import annotations

import os
import random

TIME_NS = 1_600_000_000_123_456_789
MANY = 300


def build(root: str) -> None:
    """Fills the new directory `root`."""
    for folder in ("", "sub/deep/deeper", "many", "empty_dir", "names", "programs", "modes"):
        os.makedirs(os.path.join(root, folder), exist_ok=True)
    for name, content in contents().items():
        put(root, name, content)
    for name in ("script", "nested", "with_argument", "plain_text", "no_interpreter", "echo"):
        os.chmod(os.path.join(root, "programs", name), 0o755)
    unreadable = (0o111,) if os.getuid() == 0 else ()  # none but root packs that
    for mode in (0o400, 0o444, 0o600, 0o755, 0o4755, *unreadable):
        put(root, f"modes/m{mode:04o}", b"mode\n")
        os.chmod(os.path.join(root, f"modes/m{mode:04o}"), mode)
    for i in range(MANY):
        put(root, f"many/f{i:04d}", b"%d\n" % i)
    with open(os.path.join(root, "sparse.bin"), "wb") as sparse:
        sparse.write(b"head")
        sparse.truncate(3 << 20)
        sparse.seek(1 << 20)
        sparse.write(b"tail")
    for name, target in links().items():
        os.symlink(target, os.path.join(root, name))
    set_times(root)


def contents() -> dict[str, bytes]:
    """The regular files."""
    with open("/bin/echo", "rb") as program:
        echo = program.read()
    return {
        "small": b"hello world\n",
        "x": b"x",
        "empty": b"",
        "lines": b"".join(b"line %05d of the file\n" % i for i in range(3000)),
        "no_newline": b"first\nlast without newline",
        "fields": b"one,two;three\n\nfour,,five;six\n",
        "numbers": b"".join(b"%d %f key%d\n" % (i, i / 7, i) for i in range(50)),
        "wide": "grüße\nжизнь\n日本語のテキスト\n".encode(),
        "latin1": b"caf\xe9\nna\xefve\n",
        "utf16": "wide text\nsecond\n".encode("utf-16-le"),
        "page.bin": noise(4096, 1),
        "page1.bin": noise(4097, 2),
        "mid.bin": noise(200_003, 3),
        "big.bin": noise((1 << 20) + 17, 4) + bytes(1 << 20),
        "sub/inner": b"inner\n",
        "sub/deep/leaf": b"leaf\n",
        "sub/deep/deeper/last": b"last\n",
        ".hidden": b"hidden\n",
        "names/with space": b"1",
        "names/star*?[a]": b"2",
        "names/back\\slash": b"3",
        "names/new\nline": b"4",
        "names/" + "n" * 255: b"5",
        "names/{brace}": b"6",
        "names/-dash": b"7",
        "names/~tilde": b"8",
        "programs/script": b'#!/bin/sh\necho "script $# $1 $2"\n',
        "programs/with_argument": b'#!/bin/sh -eu\necho "flags $- $1"\nfalse\necho no\n',
        "programs/plain_text": b"echo plain $1\n",
        "programs/no_interpreter": b"#!/no/such/interpreter\n",
        "programs/not_executable": b"#!/bin/sh\necho no\n",
        "programs/nested": b"#!./programs/script inner\n",
        "programs/echo": echo,
    }


def links() -> dict[str, str]:
    """Symbolic links by name."""
    chain = {f"chain{i}": f"chain{i + 1}" if i < 44 else "small" for i in range(45)}
    return chain | {
        "to_file": "small",
        "to_dir": "sub",
        "up": "..",
        "dangling": "no/such",
        "loop_a": "loop_b",
        "loop_b": "loop_a",
        "to_dir_slash": "sub/",
        "to_file_slash": "small/",
        "out": "/etc/passwd",
        "sub/back": "../sub/inner",
    }


def noise(count: int, seed: int) -> bytes:
    """`count` bytes that no codec shrinks."""
    return random.Random(seed).randbytes(count)


def put(root: str, name: str, content: bytes) -> None:
    with open(os.path.join(root, name), "wb") as file:
        file.write(content)


def set_times(root: str) -> None:
    """Times with nanoseconds, from the lengths of names alone."""
    for folder, folders, files in os.walk(root, topdown=False):
        for name in files + folders:
            time_ns = TIME_NS + len(name) * 1_000_003
            path = os.path.join(folder, name)
            os.utime(path, ns=(time_ns, time_ns), follow_symlinks=False)
