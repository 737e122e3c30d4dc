"""Writes objects. Each appears whole or not at all, and replaces only an older version of its
own."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from fanstore.buckets.bucket import Bucket, object_state
from fanstore.buckets.patience import BucketRefused, ObjectChanged, patiently

PART_BYTES = 8 << 20  # a larger object comes in parts of at least this size
_PARTS_MOST = 10_000
_PARTS_AT_ONCE = 8
_DEADLINE_S, _IMPATIENT_S = 10.0, 0.5
_MARK = "fanstore"
_NO_ETAG = '"00000000000000000000000000000000"'  # an ETag that no object has


class NameTaken(Exception):
    """There is an object of this key already, or not the one that was to be replaced."""


class FoundObject(NamedTuple):
    """An object of a bucket. mark: the number that Writer gave this version, else a hash."""

    size: int
    etag: str
    mark: int


class Content(NamedTuple):
    """The content of an object to write. mark: a number of up to 63 bits that no other version has.
    read(offset, count): returns bytes; several threads call it. advance: called with each number of
    bytes. settled: called before the object appears; if it returns False, the object is dropped."""

    size: int
    mark: int
    read: Callable[[int, int], bytes]
    advance: Callable[[int], None]
    settled: Callable[[], bool]


class Writer:
    """Writes objects of one bucket. Any thread may call its methods, which raise BucketRefused."""

    def __init__(self, bucket: Bucket, deadline_s: float = _DEADLINE_S) -> None:
        """deadline_s: of each request, with all its repetitions."""
        self._bucket = bucket
        self._deadline_s = deadline_s

    def hurry(self) -> None:
        """Has further requests repeated only for a short time."""
        self._deadline_s = _IMPATIENT_S

    def try_out(self) -> None:
        """Raises BucketRefused if nothing can be written: begins an object, and drops it; or if the
        server ignores conditions: writes one on a condition that cannot hold."""
        key = self._bucket.address.prefix + ".fanstore-trial"
        self._drop(key, self._ask("create_multipart_upload", key)["UploadId"])
        try:
            self._ask("put_object", key, Body=b"", IfMatch=_NO_ETAG)
            self._ask("delete_object", key)
        except (NameTaken, ObjectChanged):
            return
        except BucketRefused as error:
            if error.status == 403:  # an ETag is compared only for users who may also read
                return
            if error.status != 501 and "NotImplemented" not in str(error):
                raise
        raise BucketRefused(
            f"{self._bucket.address}: the server has no conditional writes (If-Match), without "
            "which outputs could replace objects of others"
        )

    def find(self, key: str) -> FoundObject | None:
        """Returns the object of a key; None if there is none."""
        try:
            answer = self._ask("head_object", key)
        except ObjectChanged:
            return None
        size, etag = int(answer["ContentLength"]), str(answer["ETag"])
        mark = object_state(etag, size)
        with contextlib.suppress(ValueError):  # others may use this name for something else
            mark = int(answer["Metadata"].get(_MARK, ""), 16)
        return FoundObject(size, etag, mark)

    def put(self, key: str, content: Content, etag: str) -> bool:
        """Writes an object. etag: of the object that it replaces; "" if it may replace none.
        Returns False if it was dropped. Raises NameTaken."""
        options: dict[str, Any] = {"IfMatch": etag} if etag else {"IfNoneMatch": "*"}
        metadata = {_MARK: f"{content.mark:x}"}
        try:
            if content.size > PART_BYTES:
                return self._put_parts(key, content, metadata, options)
            body = content.read(0, content.size)
            if content.settled():
                content.advance(content.size)
                self._ask("put_object", key, Body=body, Metadata=metadata, **options)
                return True
        except (NameTaken, ObjectChanged) as error:
            found = self.find(key)
            if found is None or found.mark != content.mark:
                raise NameTaken from error
            return True  # only the answer to an earlier try was lost
        return False

    def _put_parts(
        self, key: str, content: Content, metadata: dict[str, str], options: dict[str, Any]
    ) -> bool:
        part_bytes = max(PART_BYTES, -(-content.size // _PARTS_MOST))
        numbers = range(1, -(-content.size // part_bytes) + 1)
        with contextlib.suppress(BucketRefused):  # which may not tell
            if "IfNoneMatch" in options and self.find(key) is not None:
                raise NameTaken
        upload = self._ask("create_multipart_upload", key, Metadata=metadata)["UploadId"]

        def put_part(number: int) -> dict[str, Any]:
            body = content.read((number - 1) * part_bytes, part_bytes)
            part = {"PartNumber": number}
            answer = self._ask("upload_part", key, UploadId=upload, Body=body, **part)
            content.advance(len(body))
            return {"ETag": answer["ETag"], **part}

        pool, whole = ThreadPoolExecutor(_PARTS_AT_ONCE, "fanstore-put"), False
        try:
            options["MultipartUpload"] = {"Parts": list(pool.map(put_part, numbers))}
            if content.settled():
                self._ask("complete_multipart_upload", key, UploadId=upload, **options)
                whole = True
        finally:
            pool.shutdown(cancel_futures=True)
            if not whole:
                self._drop(key, upload)
        return whole

    def _drop(self, key: str, upload: str) -> None:
        """Removes the parts that have not become an object."""
        with contextlib.suppress(BucketRefused, ObjectChanged):
            self._ask("abort_multipart_upload", key, UploadId=upload)

    def remove(self, key: str, etag: str) -> None:
        """Removes the object with this ETag; leaves any other alone."""
        with contextlib.suppress(NameTaken, ObjectChanged):
            self._ask("delete_object", key, IfMatch=etag)

    def _ask(self, operation: str, key: str, **options: Any) -> Any:
        """Sends a request. Raises BucketRefused; ObjectChanged if something is not there, and
        NameTaken if the object to be replaced is not the expected one."""
        where = f"s3://{self._bucket.address.bucket}/{key}"
        try:
            return patiently(
                lambda: self._bucket.ask(operation, Key=key, **options),
                where, self._deadline_s, time.sleep,
            )  # fmt: skip
        except BucketRefused as error:
            if error.status == 412:
                raise NameTaken from error
            raise
