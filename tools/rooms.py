"""The rooms of csrc and fanstore, and which rooms each may use. tools/check_layers.py checks them.

A room is a folder of csrc, or a module or package of fanstore; a sub-folder or sub-package that is
named here is a room of its own. A room may use itself and the rooms listed behind it: `job` means
that room alone, `client/` (or `outputs.`) that room with all rooms inside it. A room is checked
from the moment its folder exists."""

from __future__ import annotations

Rooms = dict[str, set[str]]


def storeys(folder: str, names: str, below: set[str], sep: str) -> Rooms:
    """Returns the rooms in `folder`, bottom first: each may use the rooms `below` and those before
    it."""
    rooms: Rooms = {}
    for name in names.split():
        rooms[folder + sep + name] = below | rooms.keys()
    return rooms


_PACK = {"format", "common", "pack"}
_CLIENT = {*_PACK, "client/"}
_WRAPPERS = {*_CLIENT, "preload"}
_ANSWERS = {f"preload/{room}" for room in "files names dirs stdio process".split()}

# The lower parts of the node daemon's core hold its state: threads and the interface of a
# transport; packs on disks; the block cache; the other ranks; wants and flights; orders and hints.
# `state` contains all of these. The upper parts act on them: fetch, prefetch, serve.
_CORE = {*_PACK, "local", "policy"}
_KNOWN: Rooms = {
    "node/machine": {"format", "common"},
    "node/storage": {*_PACK, "local", "node/machine"},
    "node/cache": {"format", "common", "policy", "node/machine"},
    "node/ranks": {"format", "common", "node/machine", "node/storage"},
    "node/wants": {"format", "common", "node/machine", "node/cache", "node/ranks"},
    "node/foresight": {*_CORE, "node/machine", "node/storage", "node/cache"},
}
_STATE = {*_CORE, *_KNOWN, "node/state"}

C_ROOMS: Rooms = {
    "format": set(),
    "common": {"format"},
    "pack": {"format", "common"},
    # In prepare: first the rooms that find and read the files of a source, then the index made from
    # them.
    "prepare/source": _PACK,
    "prepare/index": {*_PACK, "prepare/source"},
    "prepare": _PACK,
    "local": _PACK,
    "batch": set(),
    "maps": {"common"},
    "stage": {"format"},
    "policy": set(),
    "trace": {"format", "common"},
    **_KNOWN,
    "node/state": {*_CORE, *_KNOWN},
    "node/fetch": _STATE,
    "node/prefetch": {*_STATE, "node/fetch"},
    "node/serve": {*_STATE, "node/fetch"},
    "node": {*_STATE, "node/fetch", "node/prefetch", "node/serve"},
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
    # At the top, because dlopen redirects system calls of libraries that it loads, and init starts
    # everything else.
    "preload/loading": {*_WRAPPERS, *_ANSWERS, "preload/syscall"},
    "trap": {*_CLIENT, *_ANSWERS, "preload/syscall"},
    "trap/family": {*_CLIENT, *_ANSWERS, "trap"},
}

# System headers that only some rooms may include.
C_SYSTEM: Rooms = {"Python.h": set(), "mpi.h": {"transport"}, "lz4.h": set(), "zstd.h": set()}

_BASE = {"arrays", "errors", "exit_codes", "wording", "_native"}
_DATASET = {*_BASE, "dataset", "decoding"}
_MAKING = {*_DATASET, "atomic"}
_OUTPUTS = {
    *_BASE, "dataset", "config", "rank_calls", "messages", "process_stat", "buckets",
}  # fmt: skip
_ORDERS = {"arrays", "policy", "policy.orders"}
_STUDY = {
    *_DATASET, "config", "policy", "policy.orders", "policy.placement", "atomic", "trace",
    "trees", "study",
}  # fmt: skip
_DAEMON = {
    *_DATASET, "config", "progress", "launcher", "startup", "staging", "rank_calls",
    "trace", "trees", "messages", "process_stat", "buckets",
}  # fmt: skip

PYTHON_ROOMS: Rooms = {
    "arrays": set(),
    "exit_codes": set(),
    "trees": set(),
    "wording": set(),
    "process_stat": set(),
    "errors": {"exit_codes", "wording"},
    "_native": {"arrays", "errors"},
    "config": {"errors", "wording"},
    "progress": set(),
    "buckets": {"errors"},
    "pieces": {"arrays", "_native"},
    "dataset": {*_BASE, "buckets", "pieces"},
    "decoding": _DATASET,
    "atomic": {*_BASE, "dataset", "trees"},
    "prepare.archives": _MAKING,  # formats alone
    "prepare": {*_MAKING, "buckets", "progress", "prepare.archives", "trees", "config"},
    "reading": {*_DATASET, "buckets", "prepare"},
    "extract": _MAKING,
    "verify": _DATASET,
    "table3": {*_MAKING, "prepare"},
    "policy": {"arrays", "_native"},
    "policy.orders": _ORDERS | {"_native"},
    "policy.placement": {"arrays", "policy"},
    "trace": {"arrays", "errors", "_native"},
    "programs": {"exit_codes"},
    "messages": {"errors"},  # between wrapper, daemon, commands and ranks
    "launcher": {"errors"},
    "beats": set(),
    "startup": {*_BASE, "beats", "launcher"},
    "transport": {*_BASE, "startup", "config"},
    "rank_calls": {"_native"},
    **storeys(
        "outputs", "model files tree ranks service", _OUTPUTS, "."
    ),
    "outputs": {*_OUTPUTS, "outputs."},
    "staging": {*_DATASET, "buckets", "config", "progress", "trees", "startup"},
    "coordinate": {"errors", "messages"},
    # The daemon: its C core and files; predicting reads; watchers; and the job, which uses all of
    # these.
    "in_job": set(),  # runs in the Python of a job's programs
    "order": {"in_job"},  # runs there, too: programs announce reads with it
    "node": {*_DAEMON, "transport", "outputs."},
    "foresight.order": {*_ORDERS, "in_job"},
    "foresight": {*_DAEMON, "node", "foresight.order", "pieces"},
    "watch": {*_DAEMON, "node"},
    "job": {*_DAEMON, "prepare", "node", "foresight", "watch", "in_job", "outputs.", "coordinate"},
    "torch": {
        *_DATASET, "reading", "coordinate", "staging", "policy", "policy.orders",
        "policy.placement",
    },
    "report": {*_DATASET, "trace", "atomic"},
    "launch": {
        *_DATASET, "buckets", "config", "progress", "launcher", "staging", "outputs.", "programs",
        "node", "foresight", "job", "messages", "report",
    },
    "warm": {*_DATASET, "atomic", "progress", "staging", "job", "messages"},
    # The laboratory: no room of the file system uses it.
    "study": {*_BASE, "policy", "policy.orders"},
    "study.simulate": _STUDY,
    "study.calibrate": _STUDY | {"launcher", "startup", "progress", "staging"},
    "study.analyze": _STUDY | {"study.calibrate", "report", "study.simulate"},
    "cli": {
        *_DATASET, "buckets", "reading", "config", "progress", "prepare", "extract", "verify",
        "table3", "launcher", "staging", "outputs.", "node", "watch", "job", "launch",
        "messages",
        "programs", "transport", "startup", "atomic", "trace", "report", "warm", "study.",
        "cli.",
    },
    "__main__": {"cli"},
}  # fmt: skip

# Third-party modules that only some rooms may import.
PYTHON_EXTERNAL: Rooms = {
    "botocore": {"buckets"}, "cffi": {"_native"}, "click": {"cli"}, "fsspec": {"reading"},
    "matplotlib": {"report", "study.simulate", "study.analyze"},
    "mpi4py": {"startup", "transport"}, "obstore": {"buckets"}, "torch": {"torch"},
}  # fmt: skip
