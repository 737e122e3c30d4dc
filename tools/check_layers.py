"""Checks that C includes and Python imports obey the layers. Prints each breach; exit code 1.

The tables below are the layers: a folder of csrc may include from these folders, a module or
package of fanstore may import these. What is not in a table has no layer yet, and is a breach.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

C_LAYERS = {
    "format": {"format"},
    "common": {"format", "common"},
    "pack": {"format", "common", "pack"},
    "prepare": {"format", "common", "pack", "prepare"},
    "node": {"format", "common", "pack", "node"},
    "transport": {"format", "node", "transport"},
    "client": {"format", "common", "pack", "client"},
    "preload": {"format", "common", "pack", "client", "preload"},
    "trap": {"format", "common", "client", "trap"},
}

# A system header that only some folders may include.
C_SYSTEM = {"Python.h": set(), "mpi.h": {"transport"}, "lz4.h": set(), "zstd.h": set()}

_BASE = {"arrays", "errors", "exit_codes", "wording", "_native"}
_DATASET = {*_BASE, "dataset", "content"}
_MAKING = {*_DATASET, "interruption", "destination"}
PYTHON_LAYERS = {
    "arrays": set(),
    "exit_codes": set(),
    "wording": set(),
    "errors": {"exit_codes", "wording"},
    "interruption": {"errors", "exit_codes"},
    "_native": {"arrays", "errors"},
    "config": {"errors"},
    "progress": set(),
    "dataset": _BASE,
    "content": _DATASET,
    "destination": {*_BASE, "dataset", "interruption"},
    "prepare": {*_MAKING, "progress"},
    "extract": _MAKING,
    "verify": _DATASET,
    "table3": {*_MAKING, "prepare"},
    "placement": set(),
    "programs": {"exit_codes"},
    "launcher": {"errors"},
    "world": {*_BASE, "launcher"},
    "transport": {*_BASE, "world"},
    "peers": set(),
    "outputs": {*_BASE, "dataset", "config", "peers"},
    "load": {*_DATASET, "config", "progress", "placement", "world"},
    "serve": {
        *_DATASET, "config", "progress", "launcher", "placement", "world", "transport", "load",
        "outputs", "peers",
    },
    "launch": {
        *_DATASET, "config", "progress", "launcher", "load", "outputs", "programs", "serve",
    },
    "cli": {
        *_DATASET, "config", "progress", "prepare", "extract", "verify", "table3",
        "placement", "launcher", "load", "outputs", "serve", "launch", "programs", "transport",
    },
    "__main__": {"cli"},
}

# A third-party module that only some may import.
PYTHON_EXTERNAL = {"cffi": {"_native"}, "click": {"cli"}, "mpi4py": {"world", "transport"}}

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)


def c_breaches(csrc: Path) -> Iterator[str]:
    """Breaches among the includes of every .c, .h and .def under `csrc`."""
    for path in sorted(p for p in csrc.rglob("*") if p.suffix in (".c", ".h", ".def", ".inc")):
        folder = path.relative_to(csrc).parts[0]
        if folder not in C_LAYERS:
            yield f"{path}: csrc/{folder} has no layer"
            continue
        for kind, name in INCLUDE.findall(path.read_text()):
            if kind == "<":
                if folder not in C_SYSTEM.get(name, {folder}):
                    yield f"{path}: <{name}> may not be included here"
                continue
            target = (path.parent / name).resolve()
            if not target.is_relative_to(csrc.resolve()):
                yield f"{path}: {name} is outside csrc"
                continue
            layer = target.relative_to(csrc.resolve()).parts[0]
            if layer not in C_LAYERS[folder]:
                yield f"{path}: {folder} may not include from {layer} ({name})"


def imported_modules(path: Path, package: tuple[str, ...]) -> Iterator[str]:
    """Absolute dotted names of all that the Python file `path`, inside `package`, imports."""
    for node in ast.walk(ast.parse(path.read_bytes(), str(path))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parent = list(package[: len(package) - node.level + 1]) if node.level else []
            base = ".".join([*parent, node.module] if node.module else parent)
            yield from (f"{base}.{alias.name}" for alias in node.names)


def python_breaches(fanstore: Path) -> Iterator[str]:
    """Breaches among the imports of every module under `fanstore`, the package's folder."""
    units = {p.stem for p in fanstore.iterdir()}
    for path in sorted(fanstore.rglob("*.py")):
        parts = path.relative_to(fanstore).with_suffix("").parts
        unit = parts[0]
        if unit == "__init__":
            continue
        if unit not in PYTHON_LAYERS:
            yield f"{path}: fanstore.{unit} has no layer"
            continue
        for name in imported_modules(path, ("fanstore", *parts[:-1])):
            top, _, rest = name.partition(".")
            target = rest.partition(".")[0]
            if top != "fanstore":
                if unit not in PYTHON_EXTERNAL.get(top, {unit}):
                    yield f"{path}: {unit} may not import {top}"
            elif target in units and target not in {unit, *PYTHON_LAYERS[unit]}:
                yield f"{path}: {unit} may not import fanstore.{target}"


def main() -> int:
    parser = argparse.ArgumentParser(description="Check the layers of csrc and fanstore.")
    parser.add_argument("root", nargs="?", type=Path, default=ROOT, help="repository root")
    root = parser.parse_args().root
    breaches = [*c_breaches(root / "csrc"), *python_breaches(root / "fanstore")]
    for breach in breaches:
        print(breach)
    if not breaches:
        print("layers: no breach")
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
