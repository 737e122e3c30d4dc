"""The compiled libraries: their layout, their exports, the conversion of errors."""

from __future__ import annotations

import errno
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fanstore import _native
from fanstore._native import LayoutError, check, dtype_of, ffi, preload_path

ROOT = Path(__file__).resolve().parents[2]
_spec = importlib.util.spec_from_file_location("native", ROOT / "tools" / "native.py")
assert _spec is not None and _spec.loader is not None
native = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(native)


def exported_names(library: Path) -> set[str]:
    """The dynamic symbols that a library defines."""
    nm = shutil.which("nm")
    if nm is None:
        pytest.skip("nm is not installed")
    output = subprocess.run(
        [nm, "-D", "--defined-only", str(library)], check=True, capture_output=True, text=True
    ).stdout
    symbols = [line.split() for line in output.splitlines()]
    return {fields[2].partition("@")[0] for fields in symbols if fields[1] != "A"}


def test_preload_exports_exactly_the_intercepts() -> None:
    assert exported_names(preload_path()) == {*native.intercepted_names(), native.FOR_MAPS}


def test_declarations_are_up_to_date() -> None:
    made = (preload_path().parent / "_declarations.py").read_text()
    assert made == native.declarations_text(native.cdef_text())


def test_every_fenced_struct_is_in_the_layout_table() -> None:
    declared = _native._own_layout(ffi)
    assert declared == _native._library_layout(ffi, _native.lib)
    assert ("fan_record", "mtime_ns") in declared


@pytest.mark.parametrize(
    ("drifted", "value"),
    [
        (("fan_record", "pack"), (48, 4)),
        (("fan_record", "pack"), None),
        (("fan_record", None), (0, 72)),
    ],
)
def test_a_drifted_field_fails_with_its_name(
    drifted: tuple[str, str | None], value: tuple[int, int] | None
) -> None:
    declared = _native._own_layout(ffi)
    compiled = dict(declared)
    if value is None:
        del compiled[drifted]
    else:
        compiled[drifted] = value
    name = f"struct {drifted[0]}" + (f".{drifted[1]}" if drifted[1] else ":")
    with pytest.raises(LayoutError, match=name):
        _native.compare_layouts(declared, compiled)


def test_a_field_unknown_to_the_declarations_fails_with_its_name() -> None:
    declared = _native._own_layout(ffi)
    compiled = {**declared, ("fan_record", "extra"): (64, 8)}
    with pytest.raises(LayoutError, match=r"struct fan_record\.extra"):
        _native.compare_layouts(declared, compiled)


def test_check_raises_for_a_negative_errno_alone() -> None:
    assert check(0) == 0
    assert check(7) == 7
    with pytest.raises(FileNotFoundError) as caught:
        check(-errno.ENOENT, "some/file")
    assert caught.value.filename == "some/file"


def test_dtype_of_follows_the_struct() -> None:
    header = dtype_of("struct fan_index_header")
    assert header.itemsize == 512
    assert header["sections"].shape == (11,)
    record = dtype_of("struct fan_record")
    assert (record.itemsize, record["mtime_ns"]) == (64, np.dtype("<i8"))
    with pytest.raises(TypeError):
        dtype_of("struct fan_layout_entry")


def test_struct_fields_reads_the_forms_used_in_headers() -> None:
    text = "/* a; b */ struct s { int a; const char *b; struct t c[4]; uint8_t d[2][3]; };"
    assert list(native.struct_fields(text)) == [("s", ["a", "b", "c", "d"])]


def test_version_script_hides_all_when_nothing_is_intercepted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(native, "intercepted_names", lambda: [])
    hidden = f"{{\n    global:\n        {native.FOR_MAPS};\n    local: *;\n}};\n"
    assert native.version_script_text() == hidden
    monkeypatch.setattr(native, "intercepted_names", lambda: ["open"])
    assert "global:\n        open;\n" in native.version_script_text()


def test_numpy_starts_no_threads_and_commands_do_not_hear_of_it() -> None:
    code = (
        "import os, fanstore.dataset\n"
        "print(len(os.listdir('/proc/self/task')), 'OPENBLAS_NUM_THREADS' in os.environ)"
    )
    environ = {name: value for name, value in os.environ.items() if "NUM_THREADS" not in name}
    output = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, env=environ
    ).stdout
    assert output.split() == ["1", "False"]


FAKE_UCX = """
static char address[8] = "address", released;
signed char ucp_worker_get_address(void *worker, void **to, unsigned long *bytes)
{
    *to = address, *bytes = sizeof(address);
    return worker != 0 ? 0 : -5;
}
void ucp_worker_release_address(void *worker, void *what) { released = what == address; }
int was_released(void) { return released; }
"""

ASK = """
import ctypes, sys
ucx = ctypes.CDLL(sys.argv[1])
from fanstore._native import share_names
share_names()
shared = ctypes.CDLL(None)
at, size = ctypes.c_void_p(), ctypes.c_size_t()
get, give_back = shared.ucp_worker_get_address, shared.ucp_worker_release_address
get.restype = ctypes.c_byte
print(get(None, ctypes.byref(at), ctypes.byref(size)))
print(get(ctypes.c_void_p(8), ctypes.byref(at), ctypes.byref(size)), size.value)
print(ctypes.string_at(at, 8 + 4096) == b"address".ljust(8 + 4096, bytes(1)))
give_back(ctypes.c_void_p(8), at)
print(ucx.was_released())
"""


def test_zeros_lie_behind_the_addresses_that_mpi_publishes(tmp_path: Path) -> None:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    library = tmp_path / "libucp.so.0"
    flags = ["-shared", "-fPIC", "-Wl,-soname,libucp.so.0", "-x", "c", "-", "-o", str(library)]
    subprocess.run([compiler, *flags], input=FAKE_UCX, text=True, check=True)
    words = subprocess.run(
        [sys.executable, "-c", ASK, str(library)], capture_output=True, text=True, check=True
    ).stdout.split()
    assert words == ["-5", "0", "8", "True", "1"]
