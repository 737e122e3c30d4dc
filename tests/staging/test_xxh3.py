"""XXH3-64 of content as it arrives: what the xxhash package says."""

from __future__ import annotations

import os
import random
import subprocess
from pathlib import Path
from typing import Any

import pytest
import xxhash
from cffi import FFI

ROOT = Path(__file__).resolve().parents[2]
PIECE_BYTES = 1024
DECLARED = """
struct fan_xxh3 { uint64_t words[11]; unsigned char tail[64]; };
void fan_xxh3_begin(struct fan_xxh3 *hash, uint64_t total_bytes);
void fan_xxh3_add(struct fan_xxh3 *hash, const void *piece, size_t bytes);
uint64_t fan_xxh3_end(const struct fan_xxh3 *hash);
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Any:
    target = tmp_path_factory.mktemp("xxh3") / "xxh3.so"
    source = ROOT / "csrc/local/xxh3.c"
    cc = [os.environ.get("CC", "cc"), "-std=gnu11", "-O2", "-shared", "-fPIC"]
    subprocess.run([*cc, source, "-o", target], check=True)
    ffi = FFI()
    ffi.cdef(DECLARED)
    return ffi, ffi.dlopen(str(target))


def hashed(made: Any, content: bytes, piece_bytes: int) -> int:
    """The checksum of content that comes in pieces."""
    ffi, lib = made
    state = ffi.new("struct fan_xxh3 *")
    lib.fan_xxh3_begin(state, len(content))
    for at in range(0, len(content), piece_bytes):
        piece = content[at : at + piece_bytes]
        lib.fan_xxh3_add(state, piece, len(piece))
    return int(lib.fan_xxh3_end(state))


def test_it_is_the_checksum_of_the_index(made: Any) -> None:
    sizes = [*range(1300), *(1 << 16, (1 << 16) - 1, (1 << 16) + 1, 100_003)]
    for size in sizes:
        content = random.Random(size).randbytes(size)
        assert hashed(made, content, max(1, size)) == xxhash.xxh3_64_intdigest(content), size


@pytest.mark.parametrize("rest", [0, 1, 63, 64, 65, 1023])
@pytest.mark.parametrize("pieces", [1, 2, 5])
def test_pieces_make_no_difference(made: Any, pieces: int, rest: int) -> None:
    content = random.Random(rest).randbytes(4 * PIECE_BYTES * pieces + rest)
    wanted = xxhash.xxh3_64_intdigest(content)
    for piece_bytes in (PIECE_BYTES, 2 * PIECE_BYTES, 4 * PIECE_BYTES):
        assert hashed(made, content, piece_bytes) == wanted
