"""The threads that fetch objects of buckets for the C core, which hands them its reads
(csrc/node/storage/objects.h)."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable, Mapping
from typing import Any

from fanstore._native import ffi, lib
from fanstore.buckets.bucket import Bucket
from fanstore.buckets.patience import BucketRefused, ObjectChanged
from fanstore.errors import FanstoreError
from fanstore.node.core import Node

_THREADS: int = lib.FAN_READERS_FAR_MAX  # one for each thread of the core that may wait
_PATH_ROOM = 4096


class _StoppedError(FanstoreError):
    """Raised in a pause between two tries when the job ends."""


class ObjectThreads:
    """Fetches the objects of the mounts that are buckets. Start it after the core, and stop it
    before the core is closed."""

    def __init__(
        self,
        node: Node,
        buckets: Mapping[int, Bucket],
        deadline_s: float,
        tell: Callable[[str], None],
    ) -> None:
        """buckets: by mount. deadline_s: how long a read may take, with all its repetitions. tell:
        called with each line for the user; may be called from any thread."""
        self._node = node
        self._buckets = buckets
        self._deadline_s = deadline_s
        self._tell = tell
        self._told: set[str] = set()
        self._stopping = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, name="fanstore-object", daemon=True)
            for _ in range(_THREADS)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self, patience_s: float) -> bool:
        """Waits for the threads, which end when the core does. Returns whether all have ended: one
        may still wait for a server."""
        self._stopping.set()
        for thread in self._threads:
            thread.join(patience_s)
            patience_s = patience_s if not thread.is_alive() else 0.0
        return not any(thread.is_alive() for thread in self._threads)

    def _run(self) -> None:
        part, path = ffi.new("struct fan_object_part *"), ffi.new("char[]", _PATH_ROOM)
        while self._node.take_object(part, path):
            content, error = self._fetched(part, bytes(ffi.buffer(path, part.path_bytes)))
            self._node.give_object(part.ticket, content, error)

    def _fetched(self, part: Any, path: bytes) -> tuple[Any, int]:
        """Returns the bytes of a part, and 0 or a -errno."""
        bucket = self._buckets[part.mount]
        try:
            key = bucket.address.prefix + path.decode("utf-8", "surrogateescape")
            content = bucket.fetch(
                key, part.offset, part.bytes, part.size, part.state,
                self._deadline_s, self._pause,
            )  # fmt: skip
            return content, 0
        except ObjectChanged:
            return b"", -errno.ESTALE
        except BucketRefused as error:
            self._say_once(str(error))
            return b"", -errno.EIO
        except _StoppedError:
            return b"", -errno.ECANCELED
        except Exception as error:  # whatever it is, a reader waits for an answer
            self._say_once(f"{bucket.address}: {type(error).__name__}: {error}")
            return b"", -errno.EIO

    def _say_once(self, line: str) -> None:
        """Tells the first problem of each kind: many reads may fail in one way."""
        kind = line.rpartition(": ")[2]
        if kind not in self._told:
            self._told.add(kind)
            self._tell(line)

    def _pause(self, pause_s: float) -> None:
        if self._stopping.wait(pause_s):
            raise _StoppedError("the job ends")
