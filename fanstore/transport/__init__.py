"""The transport over MPI: a C library, built with the site's MPI when several ranks first need it.

Python owns MPI until the transport's `pointer` is given to the node daemon's core; from then on
both belong to the core's thread.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fanstore._native import ffi
from fanstore.errors import FanstoreError
from fanstore.transport.build import (
    brought_library,
    built_library,
    describe,
    wait_without_bound,
)

__all__ = ["Transport", "describe", "open_transport"]

_OUTCOME_BYTES = 1024

# Libraries are never unloaded: MPI may hold addresses of their functions.
_loaded: dict[str, Any] = {}


class Transport:
    """An open transport. `pointer` is its `struct fan_transport *`, cast to `void *`."""

    def __init__(self, library: Any, comm: Any) -> None:
        """Opens the transport over `comm`, a communicator that nothing else uses. Raises
        FanstoreError."""
        self._library = library
        self._comm = comm
        place = ffi.new("struct fan_transport **")
        rc = library.fan_transport_open(comm.py2f(), place)
        if rc < 0:
            raise FanstoreError(f"the MPI transport cannot be opened (error {-rc})")
        self.pointer = ffi.cast("void *", place[0])

    @property
    def bell(self) -> bytes:
        """The address at which other ranks ring this one: struct fan_bell, as bytes."""
        place = ffi.new("uint8_t[]", self._library.FAN_BELL_BYTES)
        self._library.fan_transport_bell(self._transport(), place)
        return bytes(place)

    def meet(self, wait: Callable[[Any], None]) -> None:
        """Tells all ranks where this one can be rung. All ranks of the communicator must call this
        together. Raises FanstoreError."""
        own = self.bell
        everyones = bytearray(len(own) * self._comm.size)
        wait(self._comm.Iallgather(own, everyones))
        rc = self._library.fan_transport_meet(self._transport(), ffi.from_buffer(everyones))
        if rc < 0:
            raise FanstoreError(f"the MPI transport cannot be opened (error {-rc})")

    @property
    def ill_formed(self) -> int:
        """The number of messages that were dropped because they were malformed."""
        return int(self._library.fan_transport_ill_formed(self._transport()))

    def close(self) -> None:
        """Frees the transport, unless the core was given the pointer and frees it itself. Never
        waits, and so leaves the communicator to MPI_Finalize."""
        transport, self.pointer = self._transport(), ffi.NULL
        self._library.fan_transport_close(transport)

    def _transport(self) -> Any:
        return ffi.cast("struct fan_transport *", self.pointer)


def open_transport(comm: Any, wait: Callable[[Any], None] = wait_without_bound) -> Transport:
    """Returns a transport over a copy of `comm`, an mpi4py communicator. All its ranks must call
    this.

    wait: a function that waits for an MPI request, and for the compiler. World.wait ends when a
    rank is gone; the default waits without a bound."""
    problem = ""
    library = None
    for turn in (comm.rank == 0, comm.rank != 0):
        if turn:
            library, problem = _try_to_load(wait)
        _agree(comm, problem, wait)
    own, request = comm.Idup()
    wait(request)
    transport, problem = _try_to_open(library, own)
    _agree(comm, problem, wait)
    assert transport is not None
    transport.meet(wait)
    return transport


def _agree(comm: Any, problem: str, wait: Callable[[Any], None]) -> None:
    """Raises FanstoreError on all ranks if one of them has a problem, with the text of the first
    such rank."""
    own = problem.encode()[:_OUTCOME_BYTES].ljust(_OUTCOME_BYTES, b"\0")
    everyones = bytearray(_OUTCOME_BYTES * comm.size)
    wait(comm.Iallgather(own, everyones))
    for rank in range(comm.size):
        text = everyones[rank * _OUTCOME_BYTES :][:_OUTCOME_BYTES].rstrip(b"\0")
        if text:
            raise FanstoreError(f"rank {rank}: {text.decode('utf-8', 'replace')}")


def _try_to_load(wait: Callable[[Any], None]) -> tuple[Any, str]:
    """Returns (library, ""), or (None, the problem) if it cannot be loaded."""
    try:
        return _load(wait), ""
    except FanstoreError as error:
        return None, str(error)


def _try_to_open(library: Any, comm: Any) -> tuple[Transport | None, str]:
    try:
        return Transport(library, comm), ""
    except FanstoreError as error:
        return None, str(error)


def _load(wait: Callable[[Any], None]) -> Any:
    """Returns the transport library, which is built first if needed. Checks that it uses the same
    MPI as mpi4py."""
    from mpi4py import MPI

    if MPI.Query_thread() < MPI.THREAD_SERIALIZED:
        raise FanstoreError("MPI was started without support for threads (MPI_THREAD_SERIALIZED)")
    version = MPI.Get_library_version()
    if version not in _loaded:
        _loaded[version] = library_for(version, wait)
    return _loaded[version]


def library_for(version: str, wait: Callable[[Any], None] = wait_without_bound) -> Any:
    """Returns the library that came with FanStore; if that does not fit the MPI `version`, a newly
    built one. Raises FanstoreError."""
    brought = brought_library(version)
    if brought is not None:
        with contextlib.suppress(FanstoreError):
            return load_library(version, brought)
    with built_library(version, wait) as path:
        return load_library(version, path)


def load_library(version: str, path: Path) -> Any:
    """Loads the library at `path`. Raises FanstoreError if it is not for the MPI `version`."""
    try:
        library = ffi.dlopen(str(path))
    except OSError as error:
        raise FanstoreError(f"{path} cannot be loaded: {error}") from error
    _compare(version, library)
    return library


def _compare(version: str, library: Any) -> None:
    """Raises FanstoreError if the library was built with another MPI than the one that mpi4py
    uses."""
    answer = library.fan_transport_library_version()
    theirs = ffi.string(answer).decode() if answer else "unknown"
    if _words(theirs) != _words(version):
        raise FanstoreError(
            f"mpi4py runs on {_name(version)}, but the transport was built with {_name(theirs)}; "
            "set MPICC to the compiler wrapper of the first"
        )


def _words(version: str) -> list[str]:
    return version.replace("\0", " ").split()


def _name(version: str) -> str:
    """Returns the first line of an MPI library's version text."""
    return " ".join(_words(version.strip().partition("\n")[0])) or "an MPI without a name"
