"""Loads the compiled libraries, and exports `ffi` and `lib`. No other module opens these libraries.

`lib` is libfanstore_core.so through cffi's ABI mode; the generated _declarations.py declares it.
When it is loaded, the sizes and offsets that the C compiler chose are compared with cffi's."""

from __future__ import annotations

import ctypes
import os
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from cffi import FFI

__all__ = ["LayoutError", "check", "dtype_of", "ffi", "lib", "preload_path", "share_names"]

_FOLDER = Path(__file__).resolve().parent


class LayoutError(ImportError):
    """The library and its declarations do not match, or one of them is missing."""


def _open() -> tuple[FFI, Any]:
    try:
        from fanstore._native._declarations import ffi

        lib = ffi.dlopen(str(_FOLDER / "libfanstore_core.so"))
    except (ModuleNotFoundError, OSError) as error:
        raise LayoutError(f"FanStore's libraries are not built ({error})") from error
    return ffi, lib


def _own_layout(ffi: FFI) -> dict[tuple[str, str | None], tuple[int, int]]:
    """Returns (struct, field) -> (offset, bytes), as cffi lays out the declarations."""
    layout: dict[tuple[str, str | None], tuple[int, int]] = {}
    for name in ffi.list_types()[1]:
        ctype = ffi.typeof(f"struct {name}")
        try:
            layout[name, None] = (0, ffi.sizeof(ctype))
        except ffi.error:  # a struct that is declared, but not defined
            continue
        for field, info in ctype.fields:
            layout[name, field] = (info.offset, ffi.sizeof(info.type))
    return layout


def _library_layout(ffi: FFI, lib: Any) -> dict[tuple[str, str | None], tuple[int, int]]:
    """Returns (struct, field) -> (offset, bytes), as the C compiler laid them out."""
    layout: dict[tuple[str, str | None], tuple[int, int]] = {}
    count = ffi.new("uint64_t *")
    table = lib.fan_layout_table(count)
    for entry in table[0 : count[0]]:
        field = ffi.string(entry.field).decode() if entry.field else None
        layout[ffi.string(entry.name).decode(), field] = (entry.offset, entry.bytes)
    return layout


def compare_layouts(
    declared: dict[tuple[str, str | None], tuple[int, int]],
    compiled: dict[tuple[str, str | None], tuple[int, int]],
) -> None:
    """Raises LayoutError with the name of the first struct or field that differs."""
    for key in [*declared, *(k for k in compiled if k not in declared)]:
        if declared.get(key) != compiled.get(key):
            struct, field = key
            name = f"struct {struct}" + (f".{field}" if field else "")
            raise LayoutError(
                f"{name}: declared (offset, bytes) {declared.get(key)}, "
                f"compiled {compiled.get(key)}; rebuild FanStore's libraries"
            )


ffi, lib = _open()
compare_layouts(_own_layout(ffi), _library_layout(ffi, lib))


def check(rc: int, path: str | os.PathLike[str] | None = None) -> int:
    """Raises OSError (about `path`) if the C result `rc` is negative, that is -errno; otherwise
    returns `rc`."""
    if rc < 0:
        raise OSError(-rc, os.strerror(-rc), None if path is None else os.fspath(path))
    return rc


@cache
def dtype_of(struct: str) -> np.dtype[Any]:
    """Returns the NumPy dtype with the fields of a C struct such as "struct fan_record"."""
    return _dtype(ffi.typeof(struct))


def _dtype(ctype: Any) -> np.dtype[Any]:
    from fanstore.arrays import np

    if ctype.kind == "array":
        return np.dtype((_dtype(ctype.item), (ctype.length,)))
    if ctype.kind == "struct":
        fields = [(name, info.offset, _dtype(info.type)) for name, info in ctype.fields]
        return np.dtype(
            {
                "names": [name for name, _, _ in fields],
                "offsets": [offset for _, offset, _ in fields],
                "formats": [dtype for _, _, dtype in fields],
                "itemsize": ffi.sizeof(ctype),
            }
        )
    if ctype.kind != "primitive":
        raise TypeError(f"{ctype.cname} has no NumPy dtype")
    signed = int(ffi.cast(ctype, -1)) < 0
    return np.dtype(f"<{'i' if signed else 'u'}{ffi.sizeof(ctype)}")


def share_names() -> None:
    """Puts this library's functions first in the symbol look-up of libraries that are loaded later:
    they call these functions instead of those of their own libraries
    (csrc/node/machine/ucx_address.c)."""
    ctypes.CDLL(str(_FOLDER / "libfanstore_core.so"), ctypes.RTLD_GLOBAL)


def trap_path() -> Path:
    """Returns the path of the executable of `--trap`. Raises LayoutError if it was not built."""
    path = _FOLDER / "fanstore-trap"
    if not os.access(path, os.X_OK):
        raise LayoutError(f"FanStore's trap is not built ({path})")
    return path


def maps_path() -> Path:
    """Returns the path of the map server's executable, which may be missing."""
    return _FOLDER / "fanstore-maps"


def preload_path() -> Path:
    """Returns the path of the preload library. Raises LayoutError if it was not built."""
    path = _FOLDER / "libfanstore_preload.so"
    if not path.exists():
        raise LayoutError(f"FanStore's preload library is not built ({path})")
    return path
