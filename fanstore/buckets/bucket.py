"""Requests to a bucket: botocore finds the credentials and signs, obstore fetches objects at a
higher rate, without a copy in Python."""

from __future__ import annotations

import datetime
import os
import re
import threading
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any
from urllib.parse import quote, urlencode

import xxhash

from fanstore.buckets.address import parse
from fanstore.buckets.patience import (
    LONG_S,
    BucketRefused,
    Check,
    ObjectChanged,
    SideBySide,
    patiently,
)
from fanstore.errors import FanstoreError, UsageError

# How long to wait for a connection, for the next bytes, and for a whole answer.
_CONNECT_S, _SILENCE_S, _ANSWER_S = 5.0, 30.0, 300.0
_CONNECTIONS = 64
_RANGES, RANGE_BYTES = 4, 8 << 20  # of a large object, at a time
_ASK_AGAIN = datetime.timedelta(minutes=5)  # how long obstore uses credentials that may expire
_STATUS = re.compile(r"status code: (\d{3})")
_REASON = re.compile(r"HTTP error: [^\n]*")
_CODE = re.compile(r"<Code>(\w+)</Code>")
_PASSING = ("SlowDown", "ConditionalRequestConflict")  # codes of errors that may pass
_home_pid = 0  # of the process with obstore's threads


def object_state(etag: str, size: int) -> int:
    """Returns the state of an object, as a listing notes it: a hash of its ETag and size."""
    name = etag.removeprefix("W/").strip('"')
    return (xxhash.xxh3_64_intdigest(f"{name} {size}".encode()) >> 2) | 1


def check_nothing() -> None:
    """Lets the work go on."""


@dataclass(frozen=True)
class ListedObject:
    """An object of a listing. key: behind the prefix of the address."""

    key: str
    size: int
    etag: str
    mtime_ns: int


def is_forked() -> bool:
    """Returns whether obstore cannot be used, because its threads are in another process: in the
    first that asks this."""
    global _home_pid
    _home_pid = _home_pid or os.getpid()
    return os.getpid() != _home_pid


class Bucket:
    """The objects below an address, each with the name that is the rest of its key. Any thread may
    call its methods. counts: of the "requests" that were sent, those that "failed" in a way that
    may pass, and the "bytes" of objects that came."""

    def __init__(self, address: str) -> None:
        """Raises UsageError if the address cannot be read, the packages are missing, or the user's
        settings are wrong."""
        self.address = parse(address)
        self.counts: Counter[str] = Counter()
        self._lock = threading.Lock()  # guards `counts`
        self._connect()

    def _connect(self) -> None:
        address, self._pid = self.address, os.getpid()
        try:
            import botocore.session
            import obstore.store
            from botocore.exceptions import BotoCoreError
            from obstore.exceptions import BaseError
        except ImportError as error:
            raise UsageError(
                f"{address}: to use a bucket, run: pip install 'fanstore-fs[objects]'"
            ) from error
        self._get = obstore.get
        options = {
            "allow_http": True,
            "connect_timeout": datetime.timedelta(seconds=_CONNECT_S),
            "read_timeout": datetime.timedelta(seconds=_SILENCE_S),
            "timeout": datetime.timedelta(seconds=_ANSWER_S),
        }
        try:
            self._set_up(botocore.session.get_session())
            self._store = self._opened(obstore.store, options)
        except (BotoCoreError, BaseError) as error:
            raise UsageError(f"{address}: {str(error).splitlines()[0]}") from error

    def _opened(self, stores: Any, options: dict[str, Any]) -> Any:
        """Returns obstore's way to the bucket. stores: the module; options: of the client."""
        if self.address.scheme != "s3":
            where = "a directory or to an s3:// address"
            raise UsageError(f"{self.address}: can only be read: write to {where}")
        return stores.S3Store(
            self.address.bucket,
            region=self._region,
            endpoint=self.endpoint,
            virtual_hosted_style_request=False,
            skip_signature=self._credentials is None,
            credential_provider=None if self._credentials is None else self._frozen,
            client_options=options,
            retry_config={"max_retries": 0},  # patience.py repeats them
        )

    def _set_up(self, session: Any) -> None:
        """Finds the credentials and the server in the environment and the user's profile."""
        from botocore.httpsession import URLLib3Session
        from botocore.utils import get_environ_proxies

        server = self.address.server
        self._credentials: Any = None if server else session.get_credentials()
        self._region = (
            session.get_config_variable("region") or os.environ.get("AWS_REGION") or "us-east-1"
        )
        self.endpoint = server or _endpoint(session.get_scoped_config(), self._region)
        self._http = URLLib3Session(
            verify=session.get_config_variable("ca_bundle") or True,
            timeout=(_CONNECT_S, _SILENCE_S),
            proxies=get_environ_proxies(self.endpoint),
            max_pool_connections=_CONNECTIONS,
        )

    def _frozen(self) -> Any:
        """Returns the present credentials for obstore."""
        now = self._credentials.get_frozen_credentials()
        expires = datetime.datetime.now(datetime.timezone.utc) + _ASK_AGAIN
        return {
            "access_key_id": now.access_key,
            "secret_access_key": now.secret_key,
            "token": now.token,
            "expires_at": expires if hasattr(self._credentials, "refresh_needed") else None,
        }

    def send(
        self, method: str, name: str | None, query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None, body: bytes = b"", deadline_s: float = LONG_S,
        check: Check = check_nothing,
    ) -> Any:  # fmt: skip
        """Sends a request about an object, or about the bucket, and returns botocore's AWSResponse.
        Raises BucketRefused; ObjectChanged if something is not there."""
        where = str(self.address) if name is None else f"{self.address}/{name}"

        def once() -> Any:
            return self._send(where, method, self._url(name, query or {}), headers or {}, body)

        return patiently(once, where, len(body), deadline_s, check)

    def _url(self, name: str | None, query: Mapping[str, str]) -> str:
        key = "" if name is None else "/" + quote(self.address.prefix + name, safe="/~")
        url = f"{self.endpoint}/{quote(self.address.bucket)}{key}"
        return f"{url}?{urlencode(sorted(query.items()), quote_via=quote)}" if query else url

    def _send(
        self, where: str, method: str, url: str, headers: Mapping[str, str], body: bytes
    ) -> Any:
        from botocore.auth import S3SigV4Auth
        from botocore.awsrequest import AWSRequest
        from botocore.exceptions import BotoCoreError

        if self._pid != os.getpid():  # two processes cannot share connections
            self._connect()
        request = AWSRequest(method, url, headers, body)
        self._count(requests=1)
        try:
            if self._credentials is not None:
                frozen = self._credentials.get_frozen_credentials()
                S3SigV4Auth(frozen, "s3", self._region).add_auth(request)
            answer = self._http.send(request.prepare())
        except BotoCoreError as error:
            raise self._failure(where, 0, f"HTTP error: {type(error).__name__}") from error
        content = answer.content
        # The end of an upload may fail after its status came.
        if answer.status_code < 300 and not (method == "POST" and b"<Error>" in content):
            return answer
        status = answer.status_code if answer.status_code >= 300 else 500
        raise self._failure(where, status, content.decode("utf-8", "replace"), answer.headers)

    def read(self, name: str, offset: int, count: int, size: int, state: int = 0) -> bytes:
        """Returns a part of an object, as `pieces` yields it."""
        return b"".join(self.pieces(name, size, check_nothing, offset, offset + count, state))

    def pieces(
        self, name: str, size: int, check: Check = check_nothing, start: int = 0,
        end: int | None = None, state: int = 0, deadline_s: float = LONG_S,
    ) -> Iterator[Any]:  # fmt: skip
        """Yields the content of an object from byte `start` up to `end` as buffers, of ranges of
        which several are under way. The rest is as of `fetch`."""
        end = size if end is None else end
        offsets, coming = deque(range(start, end, RANGE_BYTES)), deque[Future[Any]]()
        with SideBySide(_RANGES, check) as ranges:
            while offsets or coming:
                while offsets and len(coming) <= _RANGES:
                    at = offsets.popleft()
                    count = min(RANGE_BYTES, end - at)
                    coming.append(
                        ranges.submit(
                            self.fetch, name, at, count, size, state, deadline_s, ranges.check
                        )
                    )
                yield ranges.result(coming.popleft())

    def fetch(
        self, name: str, offset: int, count: int, size: int, state: int, deadline_s: float,
        check: Check,
    ) -> Any:  # fmt: skip
        """Returns, as a buffer, `count` bytes from `offset` on of an object that was listed with
        this size and state; 0: of any state. Raises BucketRefused, and ObjectChanged if there is no
        such object."""
        where, again = f"{self.address}/{name}", is_forked()

        def once() -> Any:
            nonlocal again
            get, again = self._get_plainly if again else self._get_quickly, True
            try:
                found_bytes, etag, read = get(where, name, offset, count)
                # All bytes of one answer are of the version that its head names.
                if found_bytes != size or (state and object_state(etag, size) != state):
                    raise ObjectChanged(
                        where, "file", 0, f"there is no such object of {size:,} bytes"
                    )
                content = read()
            except FanstoreError:
                raise
            except Exception as error:  # of obstore
                raise self._failure_of(where, error) from None
            if len(content) != count:
                raise self._failure(where, 0, f"{len(content)} bytes came in place of {count}")
            self._count(bytes=count)
            return content

        return patiently(once, where, count, deadline_s, check)

    def _get_quickly(self, where: str, name: str, offset: int, count: int) -> Any:
        """Asks for a part of an object. Returns the object's size, its ETag, and a function that
        returns the bytes."""
        self._count(requests=1)
        options: Any = {"range": (offset, offset + count)} if count else None
        found = self._get(self._store, self.address.prefix + name, options=options)
        return found.meta["size"], found.meta["e_tag"] or "", found.bytes

    def _get_plainly(self, where: str, name: str, offset: int, count: int) -> Any:
        """Does the same by botocore, which shows how long the server asks to wait."""
        headers = {"Range": f"bytes={offset}-{offset + count - 1}"}
        answer = self._send(where, "GET", self._url(name, {}), headers, b"")
        whole = answer.headers.get("Content-Range") or answer.headers["Content-Length"]
        return int(whole.rpartition("/")[2]), answer.headers.get("ETag", ""), lambda: answer.content

    def _count(self, **amounts: int) -> None:
        with self._lock:
            self.counts.update(amounts)

    def _failure_of(self, where: str, error: Exception) -> FanstoreError:
        """Returns the exception for an error of obstore."""
        status = _STATUS.search(str(error))
        return self._failure(where, int(status[1]) if status else 0, str(error))

    def _failure(
        self, where: str, status: int, text: str, headers: Mapping[str, str] = MappingProxyType({})
    ) -> FanstoreError:
        """Returns the exception for a request that failed. status: 0 if there was no whole answer.
        text: may say much; only its error code is shown."""
        code = _CODE.search(text)
        named = f"{status} {code[1] if code else ''}".strip()
        may_pass = status in (0, 408, 429) or (status >= 500 and status != 501)  # 501: not there
        if may_pass or (code and code[1] in _PASSING):
            self._count(failed=1)
            after = headers.get("Retry-After", "")
            after_s = float(after) if after.isdigit() else 0.0
            return BucketRefused(named if status else _reason(text), status, True, after_s)
        region = headers.get("x-amz-bucket-region", self._region)
        if region != self._region:
            why = f"is in region {region}: set AWS_DEFAULT_REGION"
        elif code is not None and code[1] in ("NoSuchBucket", "ContainerNotFound"):
            why = f"there is no such bucket at {self.endpoint}"
        elif status in (404, 416):
            return ObjectChanged(where, "file", 0, "there is no such object")
        else:
            who = "check the credentials" if self._credentials else "no credentials were found"
            who = f"requests to {self.endpoint} are not signed" if self.address.server else who
            why = f"the server refused a request ({named}); {who}"
        return BucketRefused(f"{self.address}: {why}", status)


def _reason(text: str) -> str:
    """Returns the clause of an error of obstore that says what happened to the connection."""
    found = _REASON.search(text)
    return found[0] if found else "the answer was not whole"


def _endpoint(config: Mapping[str, Any], region: str) -> str:
    """Returns the URL of the server. config: the user's profile."""
    named = (
        os.environ.get("AWS_ENDPOINT_URL_S3")
        or os.environ.get("AWS_ENDPOINT_URL")
        or config.get("endpoint_url")
        or f"https://s3.{region}.amazonaws.com{'.cn' * region.startswith('cn-')}"
    )
    return str(named).rstrip("/")
