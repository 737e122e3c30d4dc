"""Lists the objects of a bucket, by several requests at a time.

The keys come in their order, so any two of them bound a range that can be listed by itself. The
bounds are common prefixes: the "directories" of the first levels."""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import unquote_plus
from xml.etree import ElementTree

from fanstore.buckets.bucket import Bucket, ListedObject
from fanstore.buckets.clouds import CloudBucket
from fanstore.buckets.patience import BucketRefused, ObjectChanged, SideBySide

_THREADS = 16
_RANGES = 4 * _THREADS
_LEVELS = 2
_PAGE_S = 60.0  # the deadline of one page


A = TypeVar("A")
T = TypeVar("T")


@dataclass(frozen=True)
class _Page:
    objects: list[ListedObject]
    prefixes: list[str]
    next: str  # the token of the next page, or ""


def list_objects(bucket: Bucket, check: Callable[[int], None]) -> list[ListedObject]:
    """Returns the objects below the bucket's address, sorted by key. check: called now and then
    with the number of objects so far; may raise. Raises BucketRefused."""
    try:
        if isinstance(bucket, CloudBucket):
            return bucket.objects(check)
        with SideBySide(_THREADS, lambda: check(lister.count)) as pages:
            lister = _Lister(bucket, pages)
            return lister.all()
    except ObjectChanged:
        raise BucketRefused(f"{bucket.address}: the server has no listing (404)") from None


class _Lister:
    """Asks for pages. Keys and prefixes are those behind the address."""

    def __init__(self, bucket: Bucket, pages: SideBySide) -> None:
        self._bucket = bucket
        self._pages = pages
        self._prefix = bucket.address.prefix
        self.count = 0

    def all(self) -> list[ListedObject]:
        (first,) = self._results(self._page, [{}])
        if not first.next:
            return first.objects
        past = first.objects[-1].key + "\0" if first.objects else ""
        bounds = [past, *(bound for bound in self._bounds() if bound > past)]
        ranges = zip(bounds, [*bounds[1:], None], strict=True)
        return list(itertools.chain(first.objects, *self._results(self._range, ranges)))

    def _results(self, ask: Callable[[A], T], arguments: Iterable[A]) -> list[T]:
        work = [self._pages.submit(ask, each) for each in arguments]
        return [self._pages.result(each) for each in work]

    def _bounds(self) -> list[str]:
        """Returns at most _RANGES keys between which the objects lie, sorted."""
        level = [""]
        for _ in range(_LEVELS):
            found: set[str] = set().union(*self._results(self._prefixes, level))
            level = sorted(found) or level
            if len(level) >= _THREADS:
                break
        step = -(-len(level) // _RANGES)
        return [bound for bound in level[::step] if bound]

    def _page(self, query: Mapping[str, str]) -> _Page:
        query = {"list-type": "2", "encoding-type": "url", "prefix": self._prefix, **query}
        answer = self._bucket.send("GET", None, query, deadline_s=_PAGE_S, check=self._pages.check)
        try:
            return _parsed(answer.content, len(self._prefix))
        except (ElementTree.ParseError, KeyError, ValueError) as error:
            where = self._bucket.address
            raise BucketRefused(f"{where}: the server's listing cannot be read: {error}") from None

    def _prefixes(self, below: str) -> list[str]:
        """Returns the common prefixes of one level, of the first page alone."""
        return self._page({"delimiter": "/", "prefix": self._prefix + below}).prefixes

    def _range(self, bounds: tuple[str, str | None]) -> list[ListedObject]:
        """Returns the objects from one key on, and before another."""
        low, high = bounds
        found: list[ListedObject] = []
        # The greatest key before `low`, which ends with a slash ("." comes before it) or a NUL.
        before = low[:-1] + "." * low.endswith("/")
        query = {"start-after": self._prefix + before} if low else {}
        while True:
            page = self._page(query)
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
