"""Checks that C and Python files use only the rooms that tools/rooms.py allows. Prints each breach;
exit code 1.

C is checked twice: the includes of a file, and the calls of its object, because most calls between
wrappers use names of libc, which are in no header of ours. A room must not use a room above it.
Files of several rooms must not call each other in a circle, and within a room at most two files
may."""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import rooms  # noqa: E402

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)
C_SUFFIXES = (".c", ".h", ".def", ".inc")

# The files that each file uses: a file is its path without suffix ("client/files/store"), or a
# dotted module.
Uses = dict[str, set[str]]


def room_of(file: str, table: rooms.Rooms, sep: str) -> str | None:
    """Returns the innermost room of the table that contains `file`; None if none does."""
    parts = file.split(sep)
    names = (sep.join(parts[:end]) for end in range(len(parts), 0, -1))
    return next((name for name in names if name in table), None)


def may_use(room: str, other: str, table: rooms.Rooms, sep: str) -> bool:
    """Returns whether the table allows `room` to use the room `other`."""
    inside = any(a.endswith(sep) and (other + sep).startswith(a) for a in table[room])
    return room == other or other in table[room] or inside


def circles(uses: Uses) -> list[list[str]]:
    """Returns the groups of files that use each other, directly or through others; sorted."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    path: list[str] = []
    found = []

    def visit(file: str) -> None:
        index[file] = low[file] = len(index)
        path.append(file)
        for other in uses.get(file, ()):
            if other not in index:
                visit(other)
            if other in path:
                low[file] = min(low[file], low[other])
        if low[file] == index[file]:
            group = path[path.index(file) :]
            del path[path.index(file) :]
            found.append(sorted(group))

    for file in sorted(uses):
        if file not in index:
            visit(file)
    return [group for group in found if len(group) > 1]


def circle_breaches(uses: Uses, room_at: Callable[[str], str | None]) -> Iterator[str]:
    """Yields circles across rooms, and those of more than two files within one room."""
    for group in circles(uses):
        among = {str(room_at(file)) for file in group}
        if len(among) > 1 or len(group) > 2:
            yield f"a circle of files that use each other: {', '.join(group)}"


def c_files(csrc: Path) -> list[Path]:
    return sorted(p for p in csrc.rglob("*") if p.suffix in C_SUFFIXES)


def c_breaches(csrc: Path) -> Iterator[str]:
    """Yields breaches among the includes of every file under `csrc`."""
    table = rooms.C_ROOMS
    for path in c_files(csrc):
        room = room_of(path.relative_to(csrc).parent.as_posix(), table, "/")
        if room is None:
            yield f"{path}: csrc/{path.relative_to(csrc).parts[0]} has no room"
            continue
        for kind, name in INCLUDE.findall(path.read_text()):
            if kind == "<":
                if room not in rooms.C_SYSTEM.get(name, {room}):
                    yield f"{path}: <{name}> may not be included here"
                continue
            target = (path.parent / name).resolve()
            if not target.is_relative_to(csrc.resolve()):
                yield f"{path}: {name} is outside csrc"
                continue
            folder = target.relative_to(csrc.resolve()).parent.as_posix()
            other = room_of(folder, table, "/")
            if other is not None and not may_use(room, other, table, "/"):
                yield f"{path}: {room} may not include from {other} ({name})"


class Symbols:
    """Knows which symbols the objects under a folder define, and which they use from others."""

    def __init__(self, objects: Path) -> None:
        self.files: set[str] = set()
        self.definer: dict[str, str] = {}
        self.taken: dict[str, set[str]] = defaultdict(set)
        paths = sorted(objects.rglob("*.o"))
        if not paths:
            return
        # A line is "PATH[...]: SYMBOL TYPE VALUE SIZE"; a path is one word, relative to `objects`.
        command = ["nm", "-A", "-P", *(p.relative_to(objects).as_posix() for p in paths)]
        listed = subprocess.run(command, cwd=objects, check=True, capture_output=True, text=True)
        for line in listed.stdout.splitlines():
            path, symbol, kind = line.split()[:3]
            file = path.removesuffix(":").removesuffix(".o")
            self.files.add(file)
            if kind in "Uwv":
                self.taken[file].add(symbol)
            elif kind.isupper():
                self.definer[symbol] = file

    def calls(self) -> Iterator[tuple[str, str, str]]:
        """Yields (file, symbol, the file that defines it) for each symbol that an object uses from
        another."""
        for file, symbols in sorted(self.taken.items()):
            for symbol in sorted(symbols):
                other = self.definer.get(symbol, file)
                if other != file:
                    yield file, symbol, other


def object_breaches(csrc: Path, objects: Path) -> Iterator[str]:
    """Yields breaches among the calls of the objects under `objects`, which are linked together.

    The preload library defines the names that it intercepts, and an object that is linked into it
    gets its own definitions: `open` in csrc/client is a call of csrc/preload."""
    symbols, table = Symbols(objects), rooms.C_ROOMS
    uses: Uses = defaultdict(set)

    def room_at(file: str) -> str | None:
        return room_of(file.rpartition("/")[0], table, "/")

    for file in sorted(symbols.files):
        if "/" in file and not (csrc / f"{file}.c").exists():
            yield f"{objects}/{file}.o has no source: build again"
    for file, symbol, other in symbols.calls():
        uses[file].add(other)
        room, entered = room_at(file), room_at(other)
        if room is not None and entered is not None and not may_use(room, entered, table, "/"):
            yield f"{csrc}/{file}.c: {room} may not call {symbol} in {entered} ({other}.c)"
    yield from circle_breaches(uses, room_at)


def built_breaches(root: Path) -> Iterator[str]:
    """Yields breaches among the objects of the build in place, each library by itself."""
    parts = sorted((root / "build" / "objects").glob("*/"))
    built = {o.relative_to(p).with_suffix("").as_posix() for p in parts for o in p.rglob("*.o")}
    sources = {p.relative_to(root / "csrc") for p in (root / "csrc").rglob("*.c")}
    for path in sorted(sources):
        if path.with_suffix("").as_posix() not in built and path.parts[0] != "transport":
            yield f"csrc/{path}: there is no object of it: build first"
    for part in parts:
        yield from object_breaches(root / "csrc", part)


def imported_modules(path: Path, package: tuple[str, ...]) -> Iterator[str]:
    """Yields the absolute dotted names of all imports of the Python file `path` in `package`."""
    for node in ast.walk(ast.parse(path.read_bytes(), str(path))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parent = list(package[: len(package) - node.level + 1]) if node.level else []
            base = ".".join([*parent, node.module] if node.module else parent)
            yield from (f"{base}.{alias.name}" for alias in node.names)


def module_of(name: str, modules: Iterable[str]) -> str | None:
    """Returns the module that an imported name, such as "outputs.wire.Frame", is or is defined
    in."""
    while name and name not in modules:
        name = name.rpartition(".")[0]
    return name or None


def python_breaches(fanstore: Path) -> Iterator[str]:
    """Yields breaches among the imports of every module under `fanstore`, the package's folder."""
    table = rooms.PYTHON_ROOMS

    def room_at(path: Path) -> str | None:
        parts = path.relative_to(fanstore).with_suffix("").parts
        return room_of(".".join(parts[:-1] or parts), table, ".")  # a room in a room is a package

    files = {
        ".".join(p.relative_to(fanstore).with_suffix("").parts).removesuffix(".__init__"): p
        for p in sorted(fanstore.rglob("*.py"))
    }
    uses: Uses = defaultdict(set)
    for module, path in files.items():
        room = room_at(path)
        if module == "__init__":
            continue
        if room is None:
            yield f"{path}: fanstore.{module.split('.')[0]} has no room"
            continue
        for name in imported_modules(path, ("fanstore", *path.relative_to(fanstore).parts[:-1])):
            top, _, rest = name.partition(".")
            if top != "fanstore":
                if room not in rooms.PYTHON_EXTERNAL.get(top, {room}):
                    yield f"{path}: {room} may not import {top}"
                continue
            target = module_of(rest, files)
            other = room_at(files[target]) if target else None
            if target and target != module:
                uses[module].add(target)
            if other is not None and not may_use(room, other, table, "."):
                yield f"{path}: {room} may not import fanstore.{other}"
    yield from circle_breaches(uses, lambda module: room_at(files[module]))


def main() -> int:
    parser = argparse.ArgumentParser(description="Check the rooms of csrc and fanstore.")
    parser.add_argument("root", nargs="?", type=Path, default=ROOT, help="repository root")
    root = parser.parse_args().root
    breaches = [
        *c_breaches(root / "csrc"),
        *built_breaches(root),
        *python_breaches(root / "fanstore"),
    ]
    for breach in breaches:
        print(breach)
    if not breaches:
        print("layers: no breach")
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
