"""Writes objects. Each appears whole or not at all, and replaces only what the caller allows."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from fanstore.buckets.bucket import Bucket, check_nothing, object_state
from fanstore.buckets.patience import BucketRefused, Check, ObjectChanged, SideBySide

PART_BYTES = 8 << 20  # a larger object comes in parts of at least this size
_PARTS_MOST = 10_000
_PARTS_AT_ONCE = 8
_TRIES = 3
_DEADLINE_S, _IMPATIENT_S = 10.0, 0.5
_MARK = "x-amz-meta-fanstore"
_NO_ETAG = '"00000000000000000000000000000000"'  # an ETag that no object has
_UPLOAD_ID = re.compile(r"<UploadId>([^<]+)</UploadId>")


class NameTaken(Exception):
    """There is an object of this name that may not be replaced."""


class FoundObject(NamedTuple):
    """An object of a bucket. mark: the number that Writer gave this version, else a hash."""

    size: int
    etag: str
    mark: int


class Content(NamedTuple):
    """The content of an object to write, from an open file. mark: a number of up to 63 bits that no
    other version has. advance: called with each number of bytes. settled: called before the object
    appears; if it returns False, the object is dropped."""

    fd: int
    size: int
    mark: int
    advance: Callable[[int], None]
    settled: Callable[[], bool] = lambda: True


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
        name = ".fanstore-trial"
        self._drop(name, self._begin(name, {}))
        try:
            self._ask("PUT", name, headers={"If-Match": _NO_ETAG})
            self._ask("DELETE", name)
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

    def find(self, name: str) -> FoundObject | None:
        """Returns the object of a name; None if there is none."""
        try:
            head = self._ask("HEAD", name).headers
        except ObjectChanged:
            return None
        size, etag = int(head["Content-Length"]), str(head["ETag"])
        mark = object_state(etag, size)
        with contextlib.suppress(ValueError):  # others may use this header for something else
            mark = int(head.get(_MARK, ""), 16)
        return FoundObject(size, etag, mark)

    def write(
        self, name: str, content: Content, may_replace: Callable[[FoundObject], bool], look: bool
    ) -> bool:
        """Writes an object, unless it is there with this mark. may_replace: returns whether an
        object may be replaced. look: whether one is likely to be there. Returns False if the
        content was dropped. Raises NameTaken."""
        for number in range(_TRIES):
            condition = {"If-None-Match": "*"}
            if (look or number) and (found := self.find(name)) is not None:
                if found.mark == content.mark:  # an earlier try's, of which the answer was lost
                    content.advance(0 if number else content.size)
                    return True
                if not may_replace(found):
                    raise NameTaken
                condition = {"If-Match": found.etag}
            with contextlib.suppress(NameTaken, ObjectChanged):
                return self._put(name, content, condition)
        raise NameTaken

    def _put(self, name: str, content: Content, condition: Mapping[str, str]) -> bool:
        mark = {_MARK: f"{content.mark:x}"}
        if content.size > PART_BYTES:
            return self._put_parts(name, content, mark, condition)
        body = os.pread(content.fd, content.size, 0)
        if not content.settled():
            return False
        content.advance(content.size)
        self._ask("PUT", name, headers={**mark, **condition}, body=body)
        return True

    def _put_parts(
        self, name: str, content: Content, mark: Mapping[str, str], condition: Mapping[str, str]
    ) -> bool:
        part_bytes = max(PART_BYTES, -(-content.size // _PARTS_MOST))
        with contextlib.suppress(BucketRefused):  # which may not tell
            if "If-None-Match" in condition and self.find(name) is not None:
                raise NameTaken
        upload = self._begin(name, mark)

        def put_part(number: int, check: Check) -> str:
            body = os.pread(content.fd, part_bytes, (number - 1) * part_bytes)
            query = {"partNumber": str(number), "uploadId": upload}
            etag = self._ask("PUT", name, query, body=body, check=check).headers["ETag"]
            content.advance(len(body))
            return f"<Part><PartNumber>{number}</PartNumber><ETag>{etag}</ETag></Part>"

        whole = False
        try:
            with SideBySide(_PARTS_AT_ONCE, check_nothing) as parts:
                numbers = range(1, -(-content.size // part_bytes) + 1)
                work = [parts.submit(put_part, number, parts.check) for number in numbers]
                text = "".join(parts.result(part) for part in work)
            if content.settled():
                text = f"<CompleteMultipartUpload>{text}</CompleteMultipartUpload>"
                self._ask("POST", name, {"uploadId": upload}, condition, text.encode())
                whole = True
        finally:
            if not whole:
                self._drop(name, upload)
        return whole

    def _begin(self, name: str, mark: Mapping[str, str]) -> str:
        """Begins an object of several parts. Returns the number of the upload."""
        found = _UPLOAD_ID.search(self._ask("POST", name, {"uploads": ""}, mark).text)
        if found is None:
            raise BucketRefused(f"{self._bucket.address}: the server's answer cannot be read")
        return found[1]

    def _drop(self, name: str, upload: str) -> None:
        """Removes the parts that have not become an object."""
        with contextlib.suppress(BucketRefused, ObjectChanged):
            self._ask("DELETE", name, {"uploadId": upload})

    def remove(self, name: str, etag: str) -> None:
        """Removes the object with this ETag; leaves any other alone."""
        with contextlib.suppress(NameTaken, ObjectChanged):
            self._ask("DELETE", name, headers={"If-Match": etag})

    def _ask(
        self, method: str, name: str, query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None, body: bytes = b"", check: Check = check_nothing,
    ) -> Any:  # fmt: skip
        """Sends a request. Raises BucketRefused; ObjectChanged if something is not there, and
        NameTaken if the object to be replaced is not the expected one."""
        try:
            return self._bucket.send(method, name, query, headers, body, self._deadline_s, check)
        except BucketRefused as error:
            if error.status == 412:
                raise NameTaken from error
            raise
