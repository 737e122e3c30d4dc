"""The tree that every contrast case reads: small, deterministic, odd where file systems are odd."""

from __future__ import annotations

import bz2
import gzip
import importlib.util
import io
import lzma
import os
import random
import struct
import tarfile
import zipfile
import zlib
from pathlib import Path

BASE_TIME_NS = 1_600_000_000_123_456_789
NOBODY = 65534


def build_tree(root: Path) -> None:
    """Fills the new directory `root`; directories get their times last."""
    root.mkdir()
    for part in (
        _texts,
        _binaries,
        _images,
        _arrays,
        _archives,
        _links,
        _odd_names,
        _deep,
        _modes,
        _many,
        _programs,
        _odd_tree,
    ):
        part(root)
    _set_times(root)


def _put(path: Path, content: bytes, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    path.chmod(mode)


def noise(count: int, seed: int) -> bytes:
    """`count` bytes that no codec shrinks."""
    return random.Random(seed).randbytes(count)


def _texts(root: Path) -> None:
    text = root / "text"
    _put(text / "hello.txt", b"hello world\n")
    _put(text / "lines.txt", b"".join(b"line %05d of the file\n" % i for i in range(3000)))
    words = [b"%s-%d" % (w, i) for i, w in enumerate([b"pear", b"apple", b"fig", b"date"] * 50)]
    random.Random(7).shuffle(words)
    _put(text / "words.txt", b"\n".join(words) + b"\n")
    _put(text / "no_newline.txt", b"first\nlast without newline")
    _put(text / "crlf.txt", b"one\r\ntwo\rthree\n\r\n")
    _put(text / "wide.txt", "grüße\nжизнь\n日本語のテキスト\n".encode())
    _put(text / "latin1.txt", b"caf\xe9\nna\xefve\n")
    _put(text / "numbers.txt", b"".join(b"%d %f key%d\n" % (i, i / 7, i) for i in range(50)))
    _put(text / "x", b"x")
    _put(text / "sub" / "inner.txt", b"inner line\nneedle here\n")
    _put(text / "empty.txt", b"")
    (root / "empty_dir").mkdir()


def _binaries(root: Path) -> None:
    binary = root / "bin"
    sizes = {"small": 1000, "page": 4096, "page1": 4097, "b64k": 65536, "mid": 200_003}
    for seed, (name, count) in enumerate(sizes.items()):
        _put(binary / f"{name}.bin", noise(count, seed))
    _put(binary / "big.bin", noise(1 << 20, 11) + bytes(1 << 20) + noise((1 << 20) + 17, 12))
    _put(binary / "zeros.bin", bytes(1 << 20))
    pattern = b"".join(struct.pack("<I", i) for i in range(100_000))
    _put(binary / "pattern.bin", pattern)
    with open(binary / "sparse.bin", "wb") as sparse:
        sparse.write(b"head")
        sparse.seek(1 << 20)
        sparse.write(b"tail")
        sparse.truncate(3 << 20)


def png(width: int, height: int, seed: int) -> bytes:
    """An 8-bit RGB image with a gradient and some noise."""
    rnd = random.Random(seed)
    rows = b"".join(
        b"\0"
        + bytes(
            (x * 5 + y * 3 * c + rnd.randrange(20)) & 255 for x in range(width) for c in range(3)
        )
        for y in range(height)
    )

    def chunk(kind: bytes, body: bytes) -> bytes:
        return (
            struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        )

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(rows))
        + chunk(b"IEND", b"")
    )


def _images(root: Path) -> None:
    for label in ("cat", "dog"):
        for i in range(4):
            _put(root / "img" / label / f"{i}.png", png(32, 24, i + len(label)))
    if importlib.util.find_spec("PIL") is None:
        return
    from PIL import Image

    picture = Image.open(root / "img" / "cat" / "0.png")
    picture.save(root / "img" / "photo.jpg", quality=90)
    picture.save(root / "img" / "photo.bmp")
    picture.resize((400, 300)).save(root / "img" / "large.jpg", quality=95)


def _arrays(root: Path) -> None:
    arrays = root / "arrays"
    arrays.mkdir()
    values = [i * 0.5 for i in range(20_000)]
    _put(arrays / "raw.f64", struct.pack("<20000d", *values))
    if importlib.util.find_spec("numpy") is not None:
        import numpy as np

        np.save(arrays / "a.npy", np.arange(60_000, dtype=np.int32).reshape(300, 200))
        np.save(arrays / "fortran.npy", np.asfortranarray(np.ones((7, 5))))
        np.savez(arrays / "pair.npz", a=np.arange(10), b=np.ones(3))
        np.savetxt(arrays / "table.csv", np.arange(30).reshape(10, 3), delimiter=",", fmt="%d")
    if importlib.util.find_spec("h5py") is not None:
        import h5py

        with h5py.File(arrays / "data.h5", "w") as file:
            file["x"] = list(range(1000))
            file.create_dataset("z", data=[[1.5] * 50] * 50, chunks=(10, 50), compression="gzip")


def _archives(root: Path) -> None:
    out = root / "archives"
    body = (root / "text" / "lines.txt").read_bytes()
    _put(out / "text.gz", gzip.compress(body, mtime=0))
    _put(out / "text.bz2", bz2.compress(body))
    _put(out / "text.xz", lzma.compress(body))
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for i in range(5):
            archive.writestr(f"dir/m{i}.txt", b"member %d\n" % i * 500)
        archive.writestr("module_in_zip.py", "VALUE = 'imported from a zip'\n")
    _put(out / "files.zip", packed.getvalue())
    for name, mode in (("files.tar", "w"), ("files.tar.gz", "w:gz")):
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode=mode) as archive:
            for i in range(5):
                member = tarfile.TarInfo(f"dir/m{i}.txt")
                content = b"member %d\n" % i * 300
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
        _put(out / name, packed.getvalue())


def _links(root: Path) -> None:
    links = root / "links"
    links.mkdir()
    targets = {
        "to_file": "../text/hello.txt",
        "to_dir": "../text",
        "to_link": "to_file",
        "via_dir": "to_dir/lines.txt",
        "up": "..",
        "dangling": "no/such/file",
        "outside": "/etc/passwd",
        "loop_a": "loop_b",
        "loop_b": "loop_a",
        "self": "self",
        "slash": "../text/",
        "to_file_slash": "../text/hello.txt/",
        "dots": ".././text/../text/./hello.txt",
        "deep": "to_dir/../links/to_dir/sub/inner.txt",
        "empty_dir": "../empty_dir",
    }
    for name, target in targets.items():
        os.symlink(target, links / name)
    for i in range(45):
        os.symlink(f"chain{i + 1}" if i < 44 else "../text/hello.txt", links / f"chain{i}")
    _put(root / "hard" / "one", b"one content, three names\n")
    os.link(root / "hard" / "one", root / "hard" / "two")
    (root / "hard" / "sub").mkdir()
    os.link(root / "hard" / "one", root / "hard" / "sub" / "three")


ODD_NAMES = (
    b"with space",
    b"new\nline",
    b"tab\there",
    b"quote'\"`",
    b"-dash",
    b"star*?[a]",
    b"back\\slash",
    b"$HOME",
    b".hidden",
    b"...",
    b"~",
    b"#hash;semi&amp|pipe",
    b"\xff\xfe invalid utf-8",
    "ünïcödé-日本".encode(),
    b"\x01\x02control",
    b"n" * 255,
    b"trailing ",
)


def _odd_names(root: Path) -> None:
    for i, name in enumerate(ODD_NAMES):
        _put(root / "names" / os.fsdecode(name), b"odd name %d\n" % i)
    _put(root / "names dir" / "in a dir with space", b"spaced\n")


def _deep(root: Path) -> None:
    path = root / "deep"
    for i in range(15):
        path = path / f"level{i:02d}"
        _put(path / "here.txt", b"at level %d\n" % i)


def _modes(root: Path) -> None:
    modes = root / "modes"
    unreadable = (0o000, 0o222, 0o111) if os.getuid() == 0 else ()  # none but root packs those
    for mode in (0o400, 0o444, 0o600, 0o640, 0o755, 0o4755, 0o2755, *unreadable):
        _put(modes / f"m{mode:04o}", b"mode %04o\n" % mode, mode)
    for name, mode in (("d0700", 0o700), ("d0755", 0o755), ("d0711", 0o711), ("d0744", 0o744)):
        _put(modes / name / "inner", b"inside\n")
        (modes / name).chmod(mode)
    (modes / "sticky").mkdir()
    (modes / "sticky").chmod(0o1777)
    if os.getuid() == 0:
        _put(modes / "of_nobody", b"owned by nobody\n", 0o600)
        os.chown(modes / "of_nobody", NOBODY, NOBODY)
        _put(modes / "of_1234", b"owned by a number\n", 0o640)
        os.chown(modes / "of_1234", 1234, 5678)


def _many(root: Path) -> None:
    for i in range(1500):
        _put(root / "many" / f"f{i:05d}.dat", b"%d\n" % i)


def _programs(root: Path) -> None:
    scripts = root / "scripts"
    _put(scripts / "hello.sh", b'#!/bin/sh\necho "hello from $0 $1"\n', 0o755)
    _put(scripts / "options.sh", b"#!/bin/sh -e\nfalse\necho unreachable\n", 0o755)
    _put(scripts / "env_python", b"#!/usr/bin/env python3\nprint('env python')\n", 0o755)
    _put(scripts / "not_executable.sh", b"#!/bin/sh\necho no\n")
    _put(scripts / "bad_interpreter", b"#!/no/such/interpreter\n", 0o755)
    _put(scripts / "no_hashbang", b"echo shell fallback\n", 0o755)
    _put(scripts / "echo", Path("/bin/echo").read_bytes(), 0o755)
    _put(scripts / "source_me.sh", b"SOURCED=yes\n")
    _put(scripts / "package" / "__init__.py", b"from . import part\nNAME = __name__\n")
    _put(scripts / "package" / "part.py", b"import os\nWHERE = os.path.basename(__file__)\n")
    _put(scripts / "package" / "data.txt", b"package data\n")
    _put(scripts / "main.py", b"import package\nprint(package.NAME, package.part.WHERE)\n")


def _odd_tree(root: Path) -> None:
    """The tree that the tests of `prepare` use, as one more directory."""
    if importlib.util.find_spec("trees") is not None:
        from trees import make_odd_tree

        make_odd_tree(root / "odd")


def _set_times(root: Path) -> None:
    """Times with nanoseconds, from the names alone; some before 1970 and after 2038."""
    odd = {b"small.bin": -86_400_500_000_000, b"mid.bin": 4_102_444_800_000_000_001}
    for folder, _, files in os.walk(os.fsencode(root), topdown=False):
        for name in files:
            time_ns = odd.get(name, BASE_TIME_NS + zlib.crc32(name) * 1_000_003)
            os.utime(os.path.join(folder, name), ns=(time_ns, time_ns), follow_symlinks=False)
        time_ns = BASE_TIME_NS + zlib.crc32(os.path.basename(folder)) * 7
        if folder != os.fsencode(root):
            os.utime(folder, ns=(time_ns, time_ns))
    os.utime(root, ns=(BASE_TIME_NS, BASE_TIME_NS))
