"""Requests to a bucket: botocore finds the credentials and signs the listing, obstore fetches the
objects, without a copy in Python."""

from __future__ import annotations

import datetime
import os
import re
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

import xxhash

from fanstore.buckets.address import Address
from fanstore.buckets.patience import (
    BucketRefused,
    ObjectChanged,
    PassingFailure,
    Pause,
    may_pass,
    patiently,
)
from fanstore.errors import DatasetDamaged, UsageError

# How long to wait for a connection, for the next bytes, and for a whole answer.
_CONNECT_S, _SILENCE_S, _ANSWER_S = 5.0, 30.0, 300.0
_CONNECTIONS, _READERS = 16, 64  # for listing, and for other requests
_LOOK_EVERY_S = 0.2
_RANGES, _RANGE_BYTES = 4, 8 << 20  # of a large object, at a time
_ASK_AGAIN = datetime.timedelta(minutes=5)  # how long obstore uses credentials that may expire
_STATUS = re.compile(r"status code: (\d{3})")
_REASON = re.compile(r"HTTP error: [^\n]*")
_CODE = re.compile(r"<Code>(\w+)</Code>")
_PASSING = ("SlowDown", "ConditionalRequestConflict")  # codes of errors that may pass


@dataclass
class BucketCounts:
    """The requests that were sent, those that failed in a way that may pass, and the bytes of
    objects that came."""

    requests: int = 0
    failed: int = 0
    bytes: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, requests: int = 0, failed: int = 0, amount_bytes: int = 0) -> None:
        with self._lock:
            self.requests += requests
            self.failed += failed
            self.bytes += amount_bytes


def object_state(etag: str, size: int) -> int:
    """Returns the state of an object, as a listing notes it: a hash of its ETag and size."""
    name = etag.removeprefix("W/").strip('"')
    return (xxhash.xxh3_64_intdigest(f"{name} {size}".encode()) >> 2) | 1


class Bucket:
    """The objects below an address. Any thread may call its methods."""

    def __init__(self, address: Address) -> None:
        """Raises UsageError if the packages are missing, or the user's settings are wrong."""
        self.address = address
        self.counts = BucketCounts()
        self._connect()

    def _connect(self) -> None:
        address, self._pid = self.address, os.getpid()
        try:
            import botocore.session
            import obstore
            from botocore.exceptions import BotoCoreError
            from obstore.store import S3Store
        except ImportError as error:
            raise UsageError(
                f"{address}: to use a bucket, run: pip install 'fanstore-fs[objects]'"
            ) from error
        try:
            self._set_up(botocore.session.get_session())
        except BotoCoreError as error:
            raise UsageError(f"{address}: {error}") from error
        self._get = obstore.get
        self._store = S3Store(
            address.bucket,
            region=self._region,
            endpoint=self.endpoint,
            virtual_hosted_style_request=False,
            skip_signature=self._credentials is None,
            credential_provider=None if self._credentials is None else self._frozen,
            client_options={
                "allow_http": True,
                "connect_timeout": datetime.timedelta(seconds=_CONNECT_S),
                "read_timeout": datetime.timedelta(seconds=_SILENCE_S),
                "timeout": datetime.timedelta(seconds=_ANSWER_S),
            },
            retry_config={"max_retries": 0},  # patience.py repeats them
        )

    def _set_up(self, session: Any) -> None:
        """Finds the credentials and the server in the environment and the user's profile."""
        from botocore import UNSIGNED
        from botocore.config import Config
        from botocore.httpsession import URLLib3Session
        from botocore.utils import get_environ_proxies

        self._credentials = session.get_credentials()
        self._region = (
            session.get_config_variable("region") or os.environ.get("AWS_REGION") or "us-east-1"
        )
        self.endpoint = _endpoint(session.get_scoped_config(), self._region)
        self._http = URLLib3Session(
            verify=session.get_config_variable("ca_bundle") or True,
            timeout=(_CONNECT_S, _SILENCE_S),
            proxies=get_environ_proxies(self.endpoint),
            max_pool_connections=_CONNECTIONS,
        )
        config = Config(
            signature_version=UNSIGNED if self._credentials is None else "s3v4",
            s3={"addressing_style": "path"},
            connect_timeout=_CONNECT_S, read_timeout=_SILENCE_S, max_pool_connections=_READERS,
            retries={"total_max_attempts": 1},  # patience.py repeats them
            request_checksum_calculation="when_required",  # not all servers know others
        )  # fmt: skip
        self._client = session.create_client(
            "s3", self._region, endpoint_url=self.endpoint, config=config
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

    def ask(self, operation: str, **options: Any) -> Any:
        """Sends a request by botocore's client. Raises as _failure says."""
        from botocore.exceptions import BotoCoreError, ClientError

        self.counts.add(requests=1)
        try:
            return getattr(self._client, operation)(Bucket=self.address.bucket, **options)
        except ClientError as error:
            head = error.response["ResponseMetadata"]
            after = head.get("HTTPHeaders", {}).get("retry-after", "")
            text = f"<Code>{error.response['Error']['Code']}</Code>"
            raise self._failure(head["HTTPStatusCode"], text, after) from None
        except BotoCoreError as error:
            raise self._failure(0, f"HTTP error: {type(error).__name__}") from error

    def list_page(self, query: Mapping[str, str], deadline_s: float, pause: Pause) -> bytes:
        """Returns the XML of one page of ListObjectsV2. Raises BucketRefused."""
        asked = {"list-type": "2", "encoding-type": "url", **query}
        words = [f"{quote(name, safe='')}={quote(asked[name], safe='')}" for name in sorted(asked)]
        url = f"{self.endpoint}/{quote(self.address.bucket)}?{'&'.join(words)}"
        return patiently(lambda: self._list(url), str(self.address), deadline_s, pause)

    def _list(self, url: str) -> bytes:
        from botocore.auth import S3SigV4Auth
        from botocore.awsrequest import AWSRequest
        from botocore.exceptions import BotoCoreError

        request = AWSRequest("GET", url)
        self.counts.add(requests=1)
        try:
            if self._credentials is not None:
                frozen = self._credentials.get_frozen_credentials()
                S3SigV4Auth(frozen, "s3", self._region).add_auth(request)
            answer = self._http.send(request.prepare())
        except BotoCoreError as error:
            self.counts.add(failed=1)
            raise PassingFailure(f"{type(error).__name__}") from error
        if answer.status_code == 200:
            return bytes(answer.content)
        text = answer.content.decode("utf-8", "replace")
        region = answer.headers.get("x-amz-bucket-region", self._region)
        if region != self._region:
            raise BucketRefused(f"{self.address}: is in region {region}: set AWS_DEFAULT_REGION")
        raise self._failure(answer.status_code, text, answer.headers.get("Retry-After", ""))

    def fetch(
        self, key: str, offset: int, count: int, size: int, state: int,
        deadline_s: float, pause: Pause,
    ) -> Any:  # fmt: skip
        """Returns, as a buffer, `count` bytes from `offset` on of an object that was listed with
        this size and state; 0: of any state. Raises ObjectChanged, or BucketRefused."""

        again = _is_forked

        def once() -> Any:
            nonlocal again
            get, again = self._get_plainly if again else self._get_quickly, True
            return self._fetch(get, key, offset, count, size, state)

        where = f"s3://{self.address.bucket}/{key}"
        return patiently(once, where, deadline_s, pause)

    def _get_quickly(self, key: str, part: tuple[int, int] | None) -> Any:
        self.counts.add(requests=1)
        return self._get(self._store, key, options=part and {"range": part})

    def _get_plainly(self, key: str, part: tuple[int, int] | None) -> Any:
        """Does the same by botocore, which shows how long the server asks to wait."""
        options = {"Range": f"bytes={part[0]}-{part[1] - 1}"} if part else {}
        answer = self.ask("get_object", Key=key, **options)
        size = answer["ContentRange"].rpartition("/")[2] if part else answer["ContentLength"]
        meta = {"e_tag": answer["ETag"], "size": int(size)}
        return SimpleNamespace(meta=meta, bytes=answer["Body"].read)

    def _fetch(self, get: Any, key: str, offset: int, count: int, size: int, state: int) -> Any:
        try:
            found = get(key, None if count == size else (offset, offset + count))
            # All bytes of one answer are of the version that its head names.
            found_bytes = found.meta["size"]
            is_other = state and object_state(found.meta["e_tag"] or "", found_bytes) != state
            if is_other or found_bytes != size:
                raise ObjectChanged
            content = found.bytes()
        except (ObjectChanged, PassingFailure, BucketRefused):
            raise
        except Exception as error:
            status = _STATUS.search(str(error))
            raise self._failure(int(status[1]) if status else 0, str(error)) from None
        if len(content) != count:
            raise self._failure(0, f"{len(content)} bytes came in place of {count}")
        self.counts.add(amount_bytes=count)
        return content

    def read(self, name: str, offset: int, count: int, size: int, state: int = 0) -> bytes:
        """Returns a part of an object, as `pieces` yields it; also in a forked process."""
        if self._pid != os.getpid():  # two processes cannot share connections
            self._connect()
        return b"".join(self.pieces(name, size, lambda: None, offset, offset + count, state))

    def pieces(
        self, name: str, size: int, check: Callable[[], None], start: int = 0,
        end: int | None = None, state: int = 0,
    ) -> Iterator[Any]:  # fmt: skip
        """Yields the content of an object from byte `start` up to `end` in ranges, several of which
        are under way. name: behind the prefix. size, state: as of `fetch`. check: may raise to end
        the work. Raises BucketRefused, and DatasetDamaged if there is no such object."""
        end = size if end is None else end

        def get(at: int) -> Any:
            count, key = min(_RANGE_BYTES, end - at), self.address.prefix + name
            return self.fetch(key, at, count, size, state, _ANSWER_S, pause)

        def pause(pause_s: float) -> None:
            if closed.wait(pause_s):
                raise BucketRefused(f"{self.address}: nobody reads on")

        closed = threading.Event()
        pool, coming = ThreadPoolExecutor(_RANGES, "fanstore-range"), deque[Future[Any]]()
        offsets = deque(range(start, end, _RANGE_BYTES))
        try:
            while offsets or coming:
                while offsets and len(coming) <= _RANGES:
                    coming.append(pool.submit(get, offsets.popleft()))
                while not coming[0].done():
                    wait([coming[0]], _LOOK_EVERY_S)
                    check()
                yield coming.popleft().result()
        except ObjectChanged:
            why = f"there is no such object of {size:,} bytes"
            raise DatasetDamaged(f"{self.address}/{name}", "file", 0, why) from None
        finally:
            closed.set()  # the process waits for its threads when it ends
            pool.shutdown(wait=False, cancel_futures=True)  # a request may hang

    def _failure(self, status: int, text: str, retry_after: str = "") -> Exception:
        """Returns the exception for a request that failed. status: 0 if there was no whole answer.
        text: may say much; only its error code is shown."""
        code = _CODE.search(text)
        named = f"{status} {code[1] if code else ''}".strip()
        if not status or may_pass(status) or (code and code[1] in _PASSING):
            self.counts.add(failed=1)
            after_s = float(retry_after) if retry_after.isdigit() else 0.0
            return PassingFailure(named if status else _reason(text), after_s, status)
        bucket_missing = code is not None and code[1] == "NoSuchBucket"
        if status in (404, 416) and not bucket_missing:
            return ObjectChanged()
        if bucket_missing:
            where = f"{self.address}: there is no such bucket at {self.endpoint}"
            return BucketRefused(where, status)
        who = "no credentials were found" if self._credentials is None else "check the credentials"
        return BucketRefused(
            f"{self.address}: the server refused a request ({named}); {who}", status
        )


_is_forked = False  # obstore can be used only in the process in which its threads are


def _note_fork() -> None:
    global _is_forked
    _is_forked = True


os.register_at_fork(after_in_child=_note_fork)


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
