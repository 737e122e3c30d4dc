"""Builds the two plain shared libraries, fanstore-trap and _declarations.py.

    libfanstore_core.so     csrc/{format,common,pack,node,prepare}   for Python, through cffi
    libfanstore_preload.so  csrc/{common,pack,client,preload}        for LD_PRELOAD
    fanstore-trap           the same and csrc/trap                   for `--trap`
    _declarations.py        the fenced text of every header, parsed for cffi's ABI mode

Used by setup.py, and by the Makefile for sanitizer builds (`--out`, `--sanitize`). A library is
left as it is while its stamp (sources, flags, compiler) is unchanged. CC and CFLAGS are honoured.
Only the declarations need cffi.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CSRC = ROOT / "csrc"
IN_PLACE = ROOT / "fanstore" / "_native"
OBJECTS = ROOT / "build" / "objects"  # of the build in place, for tools/check_layers.py

CORE_FOLDERS = ("format", "common", "pack", "node", "prepare")
PRELOAD_FOLDERS = ("common", "pack", "client", "preload")
TRAP_FOLDER = "trap"
OUTPUTS = (
    "libfanstore_core.so", "libfanstore_preload.so", "_declarations.py", "fanstore-trap"
)  # fmt: skip

COMMON_FLAGS = (
    "-std=gnu11 -D_GNU_SOURCE -g -fPIC -Wall -Wextra -Wstrict-prototypes "
    "-Wmissing-prototypes -Wno-missing-field-initializers"
).split()
# No PLT: the preload library binds when it is loaded, so no first call runs the dynamic linker
# (in a signal handler, say, or in the child of a vfork). Programs pass NULL where libc's headers
# say nonnull, and the kernel has an answer: wrappers that compare use fan_given (preload/real.h),
# since gcc may drop a plain comparison whatever the flag below says.
PRELOAD_FLAGS = (
    "-U_FORTIFY_SOURCE -fvisibility=hidden -fno-plt -ftls-model=initial-exec "
    "-fno-delete-null-pointer-checks -fno-sanitize=nonnull-attribute"
).split()
LINK_FLAGS = "-shared -Wl,-z,defs -Wl,-z,relro".split()
# The wrappers call each other, not what a program defines under the same names (gnulib's renameat2
# calls syscall(2), which is ours).
# One mapping for code and constants: every program maps them when it starts. Initialised before all
# other libraries: their constructors may read files of a mount.
PRELOAD_LINK_FLAGS = (
    "-Wl,-z,now -Wl,-z,initfirst -Wl,-z,noseparate-code -Wl,-Bsymbolic-functions".split()
)

TRAP_LINK_FLAGS = "-pie -pthread -Wl,-z,now".split()

FENCE = re.compile(r"/\* cffi: begin \*/(.*?)/\* cffi: end \*/", re.DOTALL)
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
STRUCT = re.compile(r"struct\s+(\w+)\s*\{(.*?)\}\s*;", re.DOTALL)
FIELD = re.compile(r"(\w+)\s*(?:\[[^\]]*\]\s*)*$")
INTERCEPT = re.compile(r"^\s*FAN_INTERCEPT\(\s*(\w+)", re.MULTILINE)


def fenced_texts() -> Iterator[tuple[Path, str]]:
    """Each header with fenced text, and that text; the format headers first."""
    order = ("pack_format.h", "index_format.h", "shm_format.h", "cache_format.h", "output_format.h")
    formats = [CSRC / "format" / name for name in order]
    others = sorted(p for p in CSRC.rglob("*.h") if p not in formats)
    for header in formats + others:
        texts = FENCE.findall(header.read_text())
        if texts:
            yield header, "".join(texts)


def cdef_text() -> str:
    """The declarations given to cffi, each headed by where it comes from."""
    parts = []
    for header, text in fenced_texts():
        parts.append(f"\n/* {header.relative_to(ROOT)} */{text}")
    return "".join(parts)


def declarations_text(cdef: str) -> str:
    """The Python module that cffi makes of declarations: its `ffi` knows them without parsing."""
    from cffi import FFI

    ffi = FFI()
    ffi.set_source("fanstore._native._declarations", None)
    ffi.cdef(cdef)
    with tempfile.TemporaryDirectory(prefix="fanstore-build-") as scratch:
        module = Path(scratch) / OUTPUTS[2]
        with contextlib.redirect_stdout(None):  # it says what it does
            ffi.emit_python_code(str(module))
        return module.read_text()


def struct_fields(text: str) -> Iterator[tuple[str, list[str]]]:
    """(struct name, field names) of every struct defined in `text`."""
    for name, body in STRUCT.findall(COMMENT.sub("", text)):
        yield name, [m.group(1) for d in body.split(";") if (m := FIELD.search(d.strip()))]


def layout_table_text() -> str:
    """C source of the table of sizes and offsets that is compared with cffi's when loaded."""
    includes = [f'#include "{CSRC}/format/format_check.h"']
    rows = []
    for header, text in fenced_texts():
        includes.append(f'#include "{header}"')
        for struct, fields in struct_fields(text):
            rows.append(f"    FAN_LAYOUT_STRUCT({struct}),")
            rows.extend(f"    FAN_LAYOUT_FIELD({struct}, {field})," for field in fields)
    table = ["const struct fan_layout_entry fan_layout_entries[] = {", *rows, "};"]
    count = (
        "const uint64_t fan_layout_entry_count = "
        "sizeof(fan_layout_entries) / sizeof(fan_layout_entries[0]);"
    )
    return "\n".join([*includes, "", *table, count, ""])


def intercepted_names() -> list[str]:
    """The names in intercepts.def, sorted; empty while there is none."""
    path = CSRC / "preload" / "intercepts.def"
    return sorted(set(INTERCEPT.findall(path.read_text()))) if path.exists() else []


def version_script_text() -> str:
    """Exports exactly the intercepted names."""
    names = intercepted_names()
    exported = "    global:\n" + "".join(f"        {name};\n" for name in names) if names else ""
    return "{\n" + exported + "    local: *;\n};\n"


def sources(folders: Iterable[str]) -> list[Path]:
    """The C files of these folders of csrc and of their sub-folders, in a fixed order."""
    return [p for folder in folders for p in sorted((CSRC / folder).rglob("*.c"))]


def sanitizer_flags(sanitize: str) -> list[str]:
    """Flags for -fsanitize=`sanitize`; its instrumentation warns where nothing is wrong."""
    if not sanitize:
        return []
    quiet = ["-Wno-tsan", "-Wno-unknown-warning-option"]
    return [f"-fsanitize={sanitize}", "-fno-omit-frame-pointer", *quiet]


class Builder:
    """One build into `out` with a compiler and its flags."""

    def __init__(self, out: Path, sanitize: str = "", strict: bool = False) -> None:
        """strict: a warning is an error. Not for users: other compilers have other warnings."""
        self.out = out
        self.objects = OBJECTS if out == IN_PLACE else None
        self.cc = shlex.split(os.environ.get("CC", "cc"))
        self.flags = [*COMMON_FLAGS, *shlex.split(os.environ.get("CFLAGS", "-O2"))]
        self.flags += ["-Werror"] if strict else []
        self.sanitize = sanitizer_flags(sanitize)

    def stamp_text(self, folders: Iterable[str]) -> str:
        """Changes whenever what is made of these folders must be built again."""
        digest = hashlib.sha256(repr((self.cc, self.flags, self.sanitize)).encode())
        headers = [p for p in sorted(CSRC.rglob("*")) if p.suffix in (".h", ".def", ".inc")]
        for path in [Path(__file__), *headers, *sources(folders)]:
            digest.update(str(path).encode() + b"\0" + path.read_bytes())
        return digest.hexdigest()

    def build(self) -> bool:
        """Brings all outputs up to date; False when they were already."""
        libraries, declarations = self.build_libraries(), self.build_declarations()
        return libraries or declarations

    def build_libraries(self) -> bool:
        """Brings what the C compiler makes up to date; False when it was already."""
        self.out.mkdir(parents=True, exist_ok=True)
        parts = [
            self.build_part("core", CORE_FOLDERS, self.build_core),
            self.build_part("preload", (*PRELOAD_FOLDERS, TRAP_FOLDER), self.build_preload),
        ]
        return any(parts)

    def build_part(
        self, name: str, folders: Iterable[str], make: Callable[[Path], None]
    ) -> bool:
        """Makes one library unless its stamp says that nothing changed."""
        stamp = self.stamp_text(folders)
        stamp_path = self.out / f"{name}.stamp"
        made = [self.out / f"libfanstore_{name}.so"]
        made += [self.out / OUTPUTS[3]] if TRAP_FOLDER in folders else []
        made += [self.objects / name] if self.objects else []
        there = stamp_path.exists() and all(path.exists() for path in made)
        if there and stamp_path.read_text() == stamp:
            return False
        with self.object_folder(name) as folder:
            make(folder)
        self.place(stamp_path.name, stamp.encode())
        return True

    @contextlib.contextmanager
    def object_folder(self, name: str) -> Iterator[Path]:
        """An empty folder for the objects of one library, which stays after a build in place."""
        with tempfile.TemporaryDirectory(prefix="fanstore-build-") as scratch:
            yield Path(scratch)
            if self.objects is not None:
                shutil.rmtree(self.objects / name, ignore_errors=True)
                shutil.copytree(scratch, self.objects / name)

    def build_declarations(self) -> bool:
        """Has cffi parse the declarations, which takes too long for the start of each command."""
        text = declarations_text(cdef_text())
        target = self.out / OUTPUTS[2]
        if target.exists() and target.read_text() == text:
            return False
        self.place(target.name, text.encode())
        return True

    def build_core(self, scratch: Path) -> None:
        table = scratch / "layout_table.c"
        table.write_text(layout_table_text())
        objects = self.compile([*sources(CORE_FOLDERS), table], scratch, [])
        self.link(objects, OUTPUTS[0], ["-pthread"])

    def build_preload(self, scratch: Path) -> None:
        exports = scratch / "exports.map"
        exports.write_text(version_script_text())
        objects = self.compile(sources(PRELOAD_FOLDERS), scratch, PRELOAD_FLAGS)
        self.link(objects, OUTPUTS[1], [f"-Wl,--version-script={exports}", *PRELOAD_LINK_FLAGS])
        own = self.compile(sources((TRAP_FOLDER,)), scratch, PRELOAD_FLAGS)
        self.link([*objects, *own], OUTPUTS[3], TRAP_LINK_FLAGS, LINK_FLAGS[1:])

    def compile(self, files: list[Path], folder: Path, extra: list[str]) -> list[str]:
        """Object files of `files`, compiled side by side, in the same sub-folders as these."""
        roots = [folder if path.is_relative_to(folder) else CSRC for path in files]
        objects = [
            str(folder / path.relative_to(root).with_suffix(".o"))
            for path, root in zip(files, roots, strict=True)
        ]
        for path in objects:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
        flags = [*self.flags, *self.sanitize, *extra]
        jobs = [
            [*self.cc, *flags, "-c", str(path), "-o", out]
            for path, out in zip(files, objects, strict=True)
        ]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            for result in pool.map(run, jobs):
                if result != 0:
                    raise SystemExit(f"native: the compiler failed ({result})")
        return objects

    def link(
        self, objects: list[str], name: str, extra: list[str], kind: Iterable[str] = LINK_FLAGS
    ) -> None:
        """Links beside the final place and renames, so that a running process keeps its own."""
        flags = [f for f in kind if not (self.sanitize and f.endswith("defs"))]
        flags += [f"-Wl,-soname,{name}"] if name.endswith(".so") else []
        target = self.out / name
        fresh = f"{target}.{os.getpid()}"
        command = [*self.cc, *self.flags, *self.sanitize, *flags, "-o", fresh, *objects, *extra,
                   "-ldl"]
        if run(command) != 0:
            raise SystemExit(f"native: linking {name} failed")
        os.replace(fresh, target)

    def place(self, name: str, data: bytes) -> None:
        """Writes a file of the output folder, whole or not at all."""
        fresh = self.out / f"{name}.{os.getpid()}"
        fresh.write_bytes(data)
        os.replace(fresh, self.out / name)


def run(command: list[str]) -> int:
    """Runs one compiler command, showing it when FANSTORE_BUILD_VERBOSE is set."""
    if os.environ.get("FANSTORE_BUILD_VERBOSE"):
        print(shlex.join(command), flush=True)
    return subprocess.call(command)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=IN_PLACE, help="folder for the outputs")
    parser.add_argument("--sanitize", default="", help="address,undefined or thread")
    parser.add_argument("--strict", action="store_true", help="take warnings for errors")
    arguments = parser.parse_args()
    changed = Builder(arguments.out.resolve(), arguments.sanitize, arguments.strict).build()
    print(f"native: {'built' if changed else 'up to date'}: {arguments.out}", file=sys.stderr)


if __name__ == "__main__":
    main()
