"""Builds the two plain shared libraries, two programs and _declarations.py.

    libfanstore_core.so     csrc/{format,common,pack,local,node,policy,prepare,batch,
                            stage}                                   for Python, through cffi
    libfanstore_preload.so  csrc/{common,pack,client,preload}    for LD_PRELOAD
    fanstore-trap           the same and csrc/trap                   for `--trap`
    fanstore-maps           csrc/{common,maps}                       the map server of a job
    _declarations.py        the text between the headers' cffi marks, parsed for cffi

Used by setup.py, and by the Makefile for sanitizer builds (`--out`, `--sanitize`). A library is not
built again while its stamp (sources, flags, compiler) is unchanged. Uses CC and CFLAGS. Only the
declarations need cffi."""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import hashlib
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CSRC = ROOT / "csrc"
IN_PLACE = ROOT / "fanstore" / "_native"
OBJECTS = ROOT / "build" / "objects"  # objects of the build in place, for tools/check_layers.py

CORE_FOLDERS = (
    "format", "common", "pack", "local", "policy", "node", "trace", "prepare",
    "batch", "stage",
)  # fmt: skip
PRELOAD_FOLDERS = ("common", "pack", "client", "preload")
TRAP_FOLDER = "trap"
MAPS_FOLDER = "maps"
FOR_MAPS = "fanstore_reads_for"  # csrc/preload/files/served.c
OUTPUTS = (
    "libfanstore_core.so", "libfanstore_preload.so", "_declarations.py", "fanstore-trap",
    "fanstore-maps",
)  # fmt: skip

COMMON_FLAGS = (
    "-std=gnu11 -D_GNU_SOURCE -g -fPIC -Wall -Wextra -Wstrict-prototypes "
    "-Wmissing-prototypes -Wno-missing-field-initializers"
).split()
# No PLT: the preload library binds its symbols when it is loaded, so that no first call runs the
# dynamic linker (in a signal handler or a vfork child). Programs pass NULL where libc's headers say
# nonnull, and the kernel answers that. Wrappers that compare with NULL use fan_given
# (preload/real.h), because gcc may drop a plain comparison despite the flag below.
PRELOAD_FLAGS = (
    "-U_FORTIFY_SOURCE -fvisibility=hidden -fno-plt -ftls-model=initial-exec "
    "-fno-delete-null-pointer-checks -fno-sanitize=nonnull-attribute"
).split()
# A frame has room for one path, because programs call from signal handlers and threads with stacks
# of 16 KiB. Code that needs more uses FAN_OFF_STACK (common/spare.h). Sanitizers make frames
# larger.
SMALL_FRAMES = "-Wframe-larger-than=4800"
LINK_FLAGS = "-shared -Wl,-z,defs -Wl,-z,relro".split()
# -Bsymbolic: the wrappers call each other, not functions of the same names that a program defines
# (gnulib's renameat2 calls syscall(2), which is ours). One mapping for code and constants, because
# every program maps them when it starts. initfirst: other libraries' constructors may read files of
# a mount.
PRELOAD_LINK_FLAGS = (
    "-Wl,-z,now -Wl,-z,initfirst -Wl,-z,noseparate-code -Wl,-Bsymbolic-functions "
    "-Wl,--as-needed -pthread"  # a library of its own before glibc 2.34
).split()

PROGRAM_LINK_FLAGS = "-pie -pthread -Wl,-z,now".split()

FENCE = re.compile(r"/\* cffi: begin \*/(.*?)/\* cffi: end \*/", re.DOTALL)
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
STRUCT = re.compile(r"struct\s+(\w+)\s*\{(.*?)\}\s*;", re.DOTALL)
FIELD = re.compile(r"(\w+)\s*(?:\[[^\]]*\]\s*)*$")
# A file name in the rules that the compiler writes for make.
MAKE_WORD = re.compile(r"(?:\\[ #]|[^\s])+")
OF_LIBC = re.compile(
    r"^FAN_(?:CALL|SAME|OF_FILE|FORM|CHECKED|SYSCALL|OLD|OLD_FORM)\((\w+)", re.MULTILINE
)
SAME = re.compile(r"^FAN_SAME\((\w+), .*, (\w+)\)$", re.MULTILINE)


def fenced_texts() -> Iterator[tuple[Path, str]]:
    """Yields each header that has text between the cffi marks, and that text; the format headers
    first."""
    order = (
        "pack_format.h",
        "index_format.h",
        "shm_format.h",
        "cache_format.h",
        "output_format.h",
        "trace_format.h",
    )
    formats = [CSRC / "format" / name for name in order]
    others = sorted(p for p in CSRC.rglob("*.h") if p not in formats)
    for header in formats + others:
        texts = FENCE.findall(header.read_text())
        if texts:
            yield header, "".join(texts)


def cdef_text() -> str:
    """Returns the declarations for cffi, each header's with the name of the header before it."""
    parts = []
    for header, text in fenced_texts():
        parts.append(f"\n/* {header.relative_to(ROOT)} */{text}")
    return "".join(parts)


def declarations_text(cdef: str) -> str:
    """Returns the Python module that cffi makes from declarations, which its `ffi` need not
    parse."""
    from cffi import FFI

    ffi = FFI()
    ffi.set_source("fanstore._native._declarations", None)
    ffi.cdef(cdef)
    with tempfile.TemporaryDirectory(prefix="fanstore-build-") as scratch:
        module = Path(scratch) / OUTPUTS[2]
        with contextlib.redirect_stdout(None):  # cffi prints what it does
            ffi.emit_python_code(str(module))
        return module.read_text()


def struct_fields(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yields (struct name, field names) for every struct defined in `text`."""
    for name, body in STRUCT.findall(COMMENT.sub("", text)):
        yield name, [m.group(1) for d in body.split(";") if (m := FIELD.search(d.strip()))]


def layout_table_text() -> str:
    """Returns C source of the table of sizes and offsets that is compared with cffi's when the
    library is loaded."""
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
    """Returns the functions of libc in calls.def, sorted."""
    return sorted(set(OF_LIBC.findall((CSRC / "preload" / "calls.def").read_text())))


def second_names() -> list[str]:
    """Returns options for the linker that define second names of functions (calls.def)."""
    pairs = SAME.findall((CSRC / "preload" / "calls.def").read_text())
    return [f"-Wl,--defsym={name}={of}" for name, of in pairs]


def version_script_text() -> str:
    """Returns a version script that exports exactly the intercepted names, and that of a function
    for the map server."""
    names = [*intercepted_names(), FOR_MAPS]
    exported = "    global:\n" + "".join(f"        {name};\n" for name in names) if names else ""
    return "{\n" + exported + "    local: *;\n};\n"


def sources(folders: Iterable[str]) -> list[Path]:
    """Returns the C files of these folders of csrc and of their sub-folders, in a fixed order."""
    return [p for folder in folders for p in sorted((CSRC / folder).rglob("*.c"))]


def sanitizer_flags(sanitize: str) -> list[str]:
    """Returns flags for -fsanitize=`sanitize`, without warnings that its instrumentation causes."""
    if not sanitize:
        return []
    quiet = ["-Wno-tsan", "-Wno-unknown-warning-option"]
    return [f"-fsanitize={sanitize}", "-fno-omit-frame-pointer", *quiet]


class Objects:
    """Object files in one folder. An object is kept if the same command would read the same
    texts."""

    def __init__(self, folder: Path, command: list[str]) -> None:
        """command: the compiler and its flags."""
        self.folder = folder
        self._command = command
        self._made: set[Path] = set()
        self._digests: dict[str, bytes] = {}

    def compile(self, files: Iterable[Path], root: Path, extra: Iterable[str] = ()) -> list[str]:
        """Compiles `files` in parallel. Returns the paths of their objects, which lie in the folder
        as `files` lie below `root`. Raises SystemExit if a file does not compile."""
        files = list(files)
        made = [self.folder / path.relative_to(root).with_suffix(".o") for path in files]
        self._made.update(made)
        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            codes = list(pool.map(self._compile, files, made, [extra] * len(files)))
        for path, rc in zip(files, codes, strict=True):
            if rc != 0:
                raise SystemExit(f"native: {path} does not compile ({rc})")
        return [str(path) for path in made]

    def remove_others(self) -> None:
        """Removes objects whose sources no longer exist."""
        for path in set(self.folder.rglob("*.o")) - self._made:
            for suffix in (".key", ".d", ".o"):
                path.with_suffix(suffix).unlink(missing_ok=True)

    def _compile(self, source: Path, made: Path, extra: Iterable[str]) -> int:
        command = [*self._command, *extra, "-MD", "-c", str(source), "-o", str(made)]
        key_path, headers_path = made.with_suffix(".key"), made.with_suffix(".d")
        known = made.exists() and key_path.exists() and headers_path.exists()
        if known and key_path.read_text() == self._key(command, headers_path, time.time_ns()):
            return 0
        key_path.unlink(missing_ok=True)
        made.parent.mkdir(parents=True, exist_ok=True)
        began_ns = time.time_ns()
        rc = run(command)
        if rc == 0 and headers_path.exists():
            key = self._key(command, headers_path, began_ns)
            if key is not None:
                key_path.write_text(key)
        return rc

    def _key(self, command: list[str], headers_path: Path, began_ns: int) -> str | None:
        """Returns a key that depends on the command and on the text of each file that the compiler
        read; None if one of the files is missing, or was written since `began_ns`."""
        digest = hashlib.sha256(repr(command).encode())
        _, _, names = headers_path.read_text().replace("\\\n", " ").partition(": ")
        for word in MAKE_WORD.findall(names):
            name = word.replace("\\ ", " ").replace("\\#", "#").replace("$$", "$")
            try:
                written_ns = os.stat(name).st_mtime_ns
            except FileNotFoundError:
                return None
            if written_ns >= began_ns:
                return None
            if name not in self._digests:
                self._digests[name] = hashlib.sha256(Path(name).read_bytes()).digest()
            digest.update(self._digests[name])
        return digest.hexdigest()


@contextlib.contextmanager
def object_folder(objects: Path | None, name: str) -> Iterator[Path]:
    """Yields a folder for objects in `objects`, locked for this process if the file system has
    locks; a temporary folder if `objects` is None."""
    if objects is None:
        with tempfile.TemporaryDirectory(prefix="fanstore-build-") as scratch:
            yield Path(scratch)
        return
    folder = objects / name
    folder.mkdir(parents=True, exist_ok=True)
    with open(objects / f"{name}.lock", "wb") as lock:
        with contextlib.suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder


class Builder:
    """One build into `out`, with a compiler and its flags."""

    def __init__(
        self, out: Path, sanitize: str = "", strict: bool = False, objects: Path | None = None
    ) -> None:
        """strict: warnings are errors; not for users, whose compilers may have other warnings.
        objects: a folder that keeps object files for the next build."""
        self.out = out
        self.objects = objects
        self.cc = shlex.split(os.environ.get("CC", "cc"))
        self.flags = [*COMMON_FLAGS, *shlex.split(os.environ.get("CFLAGS", "-O2"))]
        self.flags += ["-Werror"] if strict else []
        self.sanitize = sanitizer_flags(sanitize)

    def stamp_text(self, folders: Iterable[str]) -> str:
        """Returns a text that changes whenever the outputs of these folders must be built again."""
        digest = hashlib.sha256(repr((self.cc, self.flags, self.sanitize)).encode())
        headers = [p for p in sorted(CSRC.rglob("*")) if p.suffix in (".h", ".def", ".inc")]
        for path in [Path(__file__), *headers, *sources(folders)]:
            digest.update(str(path).encode() + b"\0" + path.read_bytes())
        return digest.hexdigest()

    def build(self) -> bool:
        """Brings all outputs up to date. Returns False if they were already."""
        libraries, declarations = self.build_libraries(), self.build_declarations()
        return libraries or declarations

    def build_libraries(self) -> bool:
        """Brings the outputs of the C compiler up to date. Returns False if they were already."""
        self.out.mkdir(parents=True, exist_ok=True)
        parts = [
            self.build_part("core", (*CORE_FOLDERS, MAPS_FOLDER), self.build_core),
            self.build_part("preload", (*PRELOAD_FOLDERS, TRAP_FOLDER), self.build_preload),
        ]
        return any(parts)

    def build_part(self, name: str, folders: Iterable[str], make: Callable[[Path], None]) -> bool:
        """Makes one library unless its stamp is unchanged."""
        stamp = self.stamp_text(folders)
        stamp_path = self.out / f"{name}.stamp"
        made = [self.out / f"libfanstore_{name}.so"]
        made += [self.out / OUTPUTS[3 if TRAP_FOLDER in folders else 4]]
        made += [self.objects / name] if self.objects else []
        there = stamp_path.exists() and all(path.exists() for path in made)
        if there and stamp_path.read_text() == stamp:
            return False
        stamp_path.unlink(missing_ok=True)  # no stamp while building, in case the build fails
        with object_folder(self.objects, name) as folder:
            make(folder)
        self.place(stamp_path.name, stamp.encode())
        return True

    def build_declarations(self) -> bool:
        """Makes cffi parse the declarations now, because that takes too long at the start of each
        command."""
        text = declarations_text(cdef_text())
        target = self.out / OUTPUTS[2]
        if target.exists() and target.read_text() == text:
            return False
        self.place(target.name, text.encode())
        return True

    def build_core(self, folder: Path) -> None:
        table = folder / "layout_table.c"
        table.write_text(layout_table_text())
        compiler = self.compiler(folder)
        objects = compiler.compile(sources(CORE_FOLDERS), CSRC)
        objects += compiler.compile([table], folder)
        self.link(objects, OUTPUTS[0], ["-pthread"])
        maps = compiler.compile(sources(("common", MAPS_FOLDER)), CSRC)
        compiler.remove_others()
        self.link(maps, OUTPUTS[4], PROGRAM_LINK_FLAGS, LINK_FLAGS[1:])

    def build_preload(self, folder: Path) -> None:
        exports = folder / "exports.map"
        exports.write_text(version_script_text())
        compiler = self.compiler(folder)
        flags = [*PRELOAD_FLAGS, *([] if self.sanitize else [SMALL_FRAMES])]
        objects = compiler.compile(sources(PRELOAD_FOLDERS), CSRC, flags)
        names = second_names()
        script = f"-Wl,--version-script={exports}"
        self.link(objects, OUTPUTS[1], [script, *names, *PRELOAD_LINK_FLAGS])
        own = compiler.compile(sources((TRAP_FOLDER,)), CSRC, PRELOAD_FLAGS)
        compiler.remove_others()
        self.link([*objects, *own], OUTPUTS[3], [*names, *PROGRAM_LINK_FLAGS], LINK_FLAGS[1:])

    def compiler(self, folder: Path) -> Objects:
        return Objects(folder, [*self.cc, *self.flags, *self.sanitize])

    def link(
        self, objects: list[str], name: str, extra: list[str], kind: Iterable[str] = LINK_FLAGS
    ) -> None:
        """Links to a temporary name and renames, so that running processes keep the old file."""
        flags = [f for f in kind if not (self.sanitize and f.endswith("defs"))]
        flags += [f"-Wl,-soname,{name}"] if name.endswith(".so") else []
        target = self.out / name
        fresh = f"{target}.{os.getpid()}"
        command = [
            *self.cc,
            *self.flags,
            *self.sanitize,
            *flags,
            "-o",
            fresh,
            *objects,
            *extra,
            "-ldl",
        ]
        if run(command) != 0:
            raise SystemExit(f"native: linking {name} failed")
        os.replace(fresh, target)

    def place(self, name: str, data: bytes) -> None:
        """Writes a file of the output folder, which appears only when it is complete."""
        fresh = self.out / f"{name}.{os.getpid()}"
        fresh.write_bytes(data)
        os.replace(fresh, self.out / name)


def run(command: list[str]) -> int:
    """Runs one compiler command, and prints it if FANSTORE_BUILD_VERBOSE is set."""
    if os.environ.get("FANSTORE_BUILD_VERBOSE"):
        print(shlex.join(command), flush=True)
    return subprocess.call(command)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=IN_PLACE, help="folder for the outputs")
    parser.add_argument("--sanitize", default="", help="address,undefined or thread")
    parser.add_argument("--strict", action="store_true", help="take warnings for errors")
    arguments = parser.parse_args()
    out = arguments.out.resolve()
    objects = OBJECTS if out == IN_PLACE else out / "objects"
    changed = Builder(out, arguments.sanitize, arguments.strict, objects).build()
    print(f"native: {'built' if changed else 'up to date'}: {arguments.out}", file=sys.stderr)


if __name__ == "__main__":
    main()
