"""Checks before a job starts that the libraries that decode a dataset's files are installed."""

from __future__ import annotations

import ctypes

from fanstore._native import lib
from fanstore.errors import FanstoreError

_LIBRARIES = {
    "lz4": ("liblz4.so.1", "liblz4-1 (Debian, Ubuntu) or lz4-libs (RHEL, Fedora)"),
    "zstd": ("libzstd.so.1", "libzstd1 (Debian, Ubuntu) or libzstd (RHEL, Fedora)"),
}


def codec_libraries() -> dict[str, tuple[str, str | None]]:
    """Returns for each codec its library and the reason why that cannot be loaded (None if it
    can)."""
    found: dict[str, tuple[str, str | None]] = {}
    for codec, (library, _) in _LIBRARIES.items():
        try:
            ctypes.CDLL(library)
            found[codec] = (library, None)
        except OSError as error:
            found[codec] = (library, str(error))
    return found


def codecs_of(codec_mask: int) -> list[str]:
    """Returns the codecs in the mask of an index header that need a library."""
    lz4 = 1 << lib.FAN_CODEC_LZ4 | 1 << lib.FAN_CODEC_LZ4HC
    zstd = 1 << lib.FAN_CODEC_ZSTD
    return [name for name, mask in (("lz4", lz4), ("zstd", zstd)) if codec_mask & mask]


def check_codecs(dataset_name: str, codec_mask: int) -> None:
    """Raises FanstoreError, which names the package to install, if the library of one of the
    dataset's codecs is missing."""
    needed = codecs_of(codec_mask)
    found = codec_libraries() if needed else {}
    for codec in needed:
        library, problem = found[codec]
        if problem is not None:
            raise FanstoreError(
                f"dataset {dataset_name} holds {codec} files and {library} cannot be loaded "
                f"({problem}); install {_LIBRARIES[codec][1]}"
            )
