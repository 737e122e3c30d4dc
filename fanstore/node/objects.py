"""Fetches objects of buckets for the C core, whose threads call this when they read one
(csrc/node/storage/originals.h)."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from fanstore._native import ffi
from fanstore.buckets.bucket import RANGE_BYTES, Bucket
from fanstore.buckets.patience import BucketRefused, ObjectChanged
from fanstore.errors import FanstoreError


class _StoppedError(FanstoreError):
    """Raised in a read when the job ends."""


class ObjectFetcher:
    """Fetches objects of the mounts that are buckets. Keep it as long as the core has threads."""

    def __init__(
        self, buckets: Mapping[int, Bucket], deadline_s: float, tell: Callable[[str], None]
    ) -> None:
        """buckets: by mount. deadline_s: how long a read may take, with all its repetitions. tell:
        called with each line for the user, from any thread."""
        self._buckets = buckets
        self._deadline_s = deadline_s
        self._tell = tell
        self._told: set[str] = set()
        self._is_stopped = False
        self.pointer = ffi.callback("fan_fetch_object", self._fetch, error=-errno.EIO)

    def stop(self) -> None:
        """Has reads fail soon. One may still wait for a server."""
        self._is_stopped = True

    def _fetch(self, part: Any) -> int:
        """Fetches a part of an object, a struct fan_object_part. Returns 0 or -errno."""
        bucket = self._buckets[part.mount]
        try:
            name = bytes(ffi.buffer(part.path, part.path_bytes)).decode("utf-8", "surrogateescape")
            to = part.to
            for piece in self._pieces(bucket, part, name):
                ffi.memmove(to, piece, len(piece))
                to += len(piece)
            return 0
        except ObjectChanged:
            return -errno.ESTALE
        except _StoppedError:
            return -errno.ECANCELED
        except BucketRefused as error:
            self._say_once(str(error))
        except Exception as error:  # whatever it is, a reader waits for an answer
            self._say_once(f"{bucket.address}: {type(error).__name__}: {error}")
        return -errno.EIO

    def _pieces(self, bucket: Bucket, part: Any, name: str) -> Iterable[Any]:
        start, count, size, state = part.offset, part.bytes, part.size, part.state
        if count > RANGE_BYTES:
            end = start + count
            return bucket.pieces(name, size, self._check, start, end, state, self._deadline_s)
        return [bucket.fetch(name, start, count, size, state, self._deadline_s, self._check)]

    def _say_once(self, line: str) -> None:
        """Tells the first problem of each kind: many reads may fail in one way."""
        kind = line.rpartition(": ")[2]
        if kind not in self._told:
            self._told.add(kind)
            self._tell(line)

    def _check(self) -> None:
        if self._is_stopped:
            raise _StoppedError("the job ends")
