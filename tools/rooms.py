"""The rooms of csrc and fanstore, and which rooms each may use. tools/check_layers.py checks them.

A room is a folder of csrc, or a module or package of fanstore; a sub-folder or sub-package that is
named here is a room of its own. A room may use itself and what stands behind it: `job` is that room
alone, `client/` (or `outputs.`) is that room with all rooms inside it. A room is checked from the
moment its folder exists.
"""

from __future__ import annotations

Rooms = dict[str, set[str]]


def storeys(folder: str, names: str, below: set[str], sep: str) -> Rooms:
    """Rooms in `folder`, from the ground up: each may use `below` and the ones before it."""
    rooms: Rooms = {}
    for name in names.split():
        rooms[folder + sep + name] = below | rooms.keys()
    return rooms


_PACK = {"format", "common", "pack"}
_CLIENT = {*_PACK, "client/"}
_WRAPPERS = {*_CLIENT, "preload"}
_ANSWERS = {f"preload/{room}" for room in "files names dirs stdio process".split()}

C_ROOMS: Rooms = {
    "format": set(),
    "common": {"format"},
    "pack": {"format", "common"},
    "prepare": _PACK,
    "local": _PACK,
    "batch": set(),
    "stage": {"format"},
    "policy": set(),
    "trace": {"format", "common"},
    # Of the node daemon's core: threads and the interface to a transport; where bytes lie on disks;
    # the block cache. On top of them who wants what, and from whom.
    "node/machine": {"format", "common"},
    "node/storage": {*_PACK, "local", "node/machine"},
    "node/cache": {"format", "common", "policy", "node/machine"},
    "node": {*_PACK, "local", "policy", "node/machine", "node/storage", "node/cache"},
    "transport": {"format", "node/machine"},
    **storeys(
        "client",
        "machine job files paths content outputs open handoff code",
        _PACK,
        "/",
    ),
    "preload": _CLIENT,
    "preload/files": _WRAPPERS,
    "preload/names": {*_WRAPPERS, "preload/files"},
    "preload/dirs": {*_WRAPPERS, "preload/files"},
    "preload/stdio": {*_WRAPPERS, "preload/files"},
    "preload/process": {*_WRAPPERS, "preload/files", "preload/dirs"},
    "preload/syscall": {*_WRAPPERS, *_ANSWERS},
    # On top, for dlopen redirects system calls of what it loads, and init begins all the rest.
    "preload/loading": {*_WRAPPERS, *_ANSWERS, "preload/syscall"},
    "trap": {*_CLIENT, *_ANSWERS, "preload/syscall"},
}

# A system header that only some rooms may include.
C_SYSTEM: Rooms = {"Python.h": set(), "mpi.h": {"transport"}, "lz4.h": set(), "zstd.h": set()}

_BASE = {"arrays", "errors", "exit_codes", "wording", "_native"}
_DATASET = {*_BASE, "dataset", "content"}
_MAKING = {*_DATASET, "interruption", "destination"}
_OUTPUTS = {*_BASE, "dataset", "config", "peers"}

PYTHON_ROOMS: Rooms = {
    "arrays": set(),
    "exit_codes": set(),
    "trees": set(),
    "wording": set(),
    "errors": {"exit_codes", "wording"},
    "interruption": {"errors", "exit_codes"},
    "_native": {"arrays", "errors"},
    "config": {"errors"},
    "progress": set(),
    "dataset": _BASE,
    "content": _DATASET,
    "access": _DATASET,
    "destination": {*_BASE, "dataset", "interruption", "trees"},
    "prepare": {*_MAKING, "progress"},
    "extract": _MAKING,
    "verify": _DATASET,
    "table3": {*_MAKING, "prepare"},
    "placement": set(),
    "policy": {"arrays", "_native"},
    "policy.orders": {"arrays", "_native", "policy"},
    "policy.placement": {"arrays", "policy"},
    "policy.models": {"arrays", "policy"},
    "order": {"arrays", "policy", "policy.orders", "peek"},
    "peek": set(),  # runs in the Python of a job
    "trace": {"arrays", "errors", "_native"},
    "simulate": {*_DATASET, "config", "policy", "policy.", "whole_file"},
    "whole_file": {"errors", "interruption", "_native"},
    "report": {*_DATASET, "trace", "whole_file"},
    "plan": {*_DATASET, "config", "policy", "policy.", "simulate", "whole_file"},
    "analyze": {
        *_DATASET, "policy", "policy.", "whole_file", "trace", "interruption", "calibrate",
        "report", "simulate", "trees",
    },
    "calibrate": {
        *_DATASET, "config", "policy", "simulate", "launcher", "world", "progress", "placement",
        "load",
    },
    "programs": {"exit_codes"},
    "launcher": {"errors"},
    "beats": set(),
    "world": {*_BASE, "beats", "launcher"},
    "transport": {*_BASE, "world"},
    "peers": set(),
    "live": {"errors", "peers"},
    "metrics": set(),
    **storeys(
        "outputs", "model files tree ranks service", _OUTPUTS, "."
    ),
    "outputs": {*_OUTPUTS, "outputs."},
    "load": {*_DATASET, "config", "progress", "placement", "trees", "world"},
    "coordinate": {"errors"},
    "serve": {
        *_DATASET, "config", "progress", "launcher", "placement", "world", "transport", "load",
        "peers", "outputs.", "trace", "trees", "live", "metrics", "order", "peek", "plan",
        "coordinate",
    },
    "torch": {
        *_DATASET, "access", "coordinate", "load", "placement", "policy", "policy.models",
        "policy.orders", "policy.placement",
    },
    "launch": {
        *_DATASET, "config", "progress", "launcher", "load", "outputs.", "programs", "serve",
        "report",
    },
    "warm": {*_DATASET, "interruption", "progress", "load", "serve"},
    "cli": {
        *_DATASET, "access", "config", "progress", "prepare", "extract", "verify", "table3",
        "placement", "launcher", "load", "outputs.", "serve", "launch", "programs", "transport",
        "simulate", "plan", "calibrate", "live", "whole_file", "world", "interruption", "trace",
        "report", "warm", "analyze",
    },
    "__main__": {"cli"},
}  # fmt: skip

# A third-party module that only some rooms may import.
PYTHON_EXTERNAL: Rooms = {
    "cffi": {"_native"}, "click": {"cli"}, "fsspec": {"access"},
    "matplotlib": {"report", "simulate", "analyze"},
    "mpi4py": {"world", "transport"}, "torch": {"torch"},
}  # fmt: skip
