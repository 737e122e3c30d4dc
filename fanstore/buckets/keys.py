"""Lists the objects of a bucket, by several requests at a time.

The keys come in their order, so any two of them bound a range that can be listed by itself. The
bounds are common prefixes: the "directories" of the first levels."""

from __future__ import annotations

import datetime
import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import unquote_plus
from xml.etree import ElementTree

from fanstore.buckets.bucket import Bucket
from fanstore.buckets.patience import BucketRefused, ObjectChanged

_THREADS = 16
_RANGES = 4 * _THREADS
_LEVELS = 2
_PAGE_S = 60.0  # the deadline of one page
_LOOK_EVERY_S = 0.2


T = TypeVar("T")


@dataclass(frozen=True)
class ListedObject:
    """An object of a listing. key: behind the prefix of the address."""

    key: str
    size: int
    etag: str
    mtime_ns: int


@dataclass(frozen=True)
class _Page:
    objects: list[ListedObject]
    prefixes: list[str]
    next: str  # the token of the next page, or ""


def list_objects(bucket: Bucket, check: Callable[[int], None]) -> list[ListedObject]:
    """Returns the objects below the bucket's address, sorted by key. check: called now and then
    with the number of objects so far; may raise. Raises BucketRefused."""
    lister = _Lister(bucket)
    try:
        with ThreadPoolExecutor(_THREADS, "fanstore-list") as pool:
            try:
                return _list(lister, pool, check)
            finally:
                lister.ended.set()
                pool.shutdown(wait=True, cancel_futures=True)
    except ObjectChanged:
        raise BucketRefused(f"{bucket.address}: the server has no listing (404)") from None


def _list(
    lister: _Lister, pool: ThreadPoolExecutor, check: Callable[[int], None]
) -> list[ListedObject]:
    (first,) = _results([pool.submit(lister.page, {})], lambda: check(0))
    if not first.next:
        return first.objects
    past = first.objects[-1].key + "\0" if first.objects else ""
    bounds = [bound for bound in _bounds(lister, pool, lambda: check(0)) if bound > past]
    ranges = zip([past, *bounds], [*bounds, None], strict=True)
    work = [pool.submit(lister.range, low, high) for low, high in ranges]
    parts = _results(work, lambda: check(lister.count))
    return list(itertools.chain(first.objects, *parts))


def _bounds(lister: _Lister, pool: ThreadPoolExecutor, check: Callable[[], None]) -> list[str]:
    """Returns at most _RANGES keys between which the objects lie, sorted."""
    level = [""]
    for _ in range(_LEVELS):
        work = [pool.submit(lister.prefixes, prefix) for prefix in level]
        found: set[str] = set().union(*_results(work, check))
        level = sorted(found) or level
        if len(level) >= _THREADS:
            break
    step = -(-len(level) // _RANGES)
    return [bound for bound in level[::step] if bound]


def _results(work: Sequence[Future[T]], check: Callable[[], None]) -> list[T]:
    left = set(work)
    while left:
        done, left = wait(left, timeout=_LOOK_EVERY_S, return_when=FIRST_COMPLETED)
        for each in done:
            each.result()
        check()
    return [each.result() for each in work]


class _Lister:
    """Asks for pages. Keys and prefixes are those behind the address."""

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket
        self._prefix = bucket.address.prefix
        self.count = 0
        self.ended = threading.Event()

    def page(self, query: dict[str, str]) -> _Page:
        query = {"prefix": self._prefix, **query}
        try:
            text = self._bucket.list_page(query, _PAGE_S, self._pause)
            return _parsed(text, len(self._prefix))
        except (ElementTree.ParseError, KeyError, ValueError) as error:
            where = self._bucket.address
            raise BucketRefused(f"{where}: the server's listing cannot be read: {error}") from None

    def _pause(self, pause_s: float) -> None:
        if self.ended.wait(pause_s):
            raise BucketRefused(f"{self._bucket.address}: the listing was stopped")

    def prefixes(self, below: str) -> list[str]:
        """Returns the common prefixes of one level, of the first page alone."""
        query = {"delimiter": "/", "prefix": self._prefix + below}
        return self.page(query).prefixes

    def range(self, low: str, high: str | None) -> list[ListedObject]:
        """Returns the objects from key `low` on, and before `high`."""
        found: list[ListedObject] = []
        # The greatest key before `low`, which ends with a slash ("." comes before it) or a NUL.
        before = low[:-1] + "." * low.endswith("/")
        query = {"start-after": self._prefix + before} if low else {}
        while True:
            page = self.page(query)
            inside = [o for o in page.objects if o.key >= low and (high is None or o.key < high)]
            found += inside
            self.count += len(inside)
            past = high is not None and page.objects and page.objects[-1].key >= high
            if not page.next or past:
                return found
            query = {"continuation-token": page.next}


def _parsed(text: bytes, prefix_chars: int) -> _Page:
    root = ElementTree.fromstring(text)
    space = root.tag.partition("}")[0] + "}" if root.tag.startswith("{") else ""
    is_encoded = root.findtext(space + "EncodingType") == "url"  # some servers know no encoding

    def rows(name: str) -> Iterator[dict[str, str]]:
        for each in root.iterfind(space + name):
            yield {child.tag[len(space) :]: child.text or "" for child in each}

    def key(text: str) -> str:
        return (unquote_plus(text) if is_encoded else text)[prefix_chars:]  # + is a space

    objects = [
        ListedObject(key(of["Key"]), int(of["Size"]), of["ETag"], _ns(of["LastModified"]))
        for of in rows("Contents")
    ]
    prefixes = [key(of["Prefix"]) for of in rows("CommonPrefixes")]
    is_last = root.findtext(space + "IsTruncated") != "true"
    token = "" if is_last else root.findtext(space + "NextContinuationToken") or ""
    return _Page(objects, prefixes, token)


def _ns(text: str) -> int:
    when = datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))
    return round(when.timestamp() * 1000) * 1_000_000
