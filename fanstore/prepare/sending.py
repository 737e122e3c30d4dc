"""Sends a new dataset to a bucket: its packs first, and its index last, so that nothing is seen of
a dataset that is not whole."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import xxhash

from fanstore.atomic import Ended, Interrupted
from fanstore.buckets.address import parse
from fanstore.buckets.bucket import Bucket
from fanstore.buckets.keys import list_objects
from fanstore.buckets.writing import Content, NameTaken, Writer
from fanstore.dataset import INDEX_NAME, MANIFEST_NAME, open_index, pack_name
from fanstore.errors import FanstoreError, UsageError

_DEADLINE_S = 300.0


class BucketDestination:
    """The place of a new dataset in a bucket."""

    def __init__(self, address: str, force: bool) -> None:
        """Raises UsageError if a dataset is there and is not to be replaced, BucketRefused if
        nothing can be written."""
        self._bucket = Bucket(parse(address))
        self._prefix = self._bucket.address.prefix
        self._force = force
        self._writer = Writer(self._bucket, _DEADLINE_S)
        self._writer.try_out()
        if not force and self._writer.find(self._prefix + INDEX_NAME) is not None:
            raise UsageError(f"{address}: exists already (--force replaces it)")

    def send(self, made: Path, advance: Callable[[int], None]) -> None:
        """Sends the dataset in the directory `made`, except objects that an earlier run sent.
        advance: called with each number of bytes. Raises FanstoreError."""
        with open_index(made / INDEX_NAME, made) as dataset:
            infos = [dataset.pack_info(pack) for pack in range(dataset.pack_count)]
            marks = {pack_name(info.pack): info.checksum for info in infos}
            manifest = (made / MANIFEST_NAME).read_bytes()
            marks[MANIFEST_NAME] = xxhash.xxh3_64_intdigest(manifest)
            marks[INDEX_NAME] = dataset.header.header_checksum
        try:
            if self._force:
                self._make_way(set(marks))
            for name, mark in marks.items():
                self._put(made / name, mark >> 1, advance)
        except Ended as ended:
            where = self._bucket.address
            raise Interrupted(ended, f"{where}: run it again to send what is missing") from None

    def _make_way(self, names: set[str]) -> None:
        """Removes the index that is there, and packs that the new dataset does not have."""
        objects = list_objects(self._bucket, lambda _: None)
        for each in sorted(objects, key=lambda each: each.key != INDEX_NAME):
            is_pack = each.key.startswith("pack-") and each.key not in names
            if each.key == INDEX_NAME or is_pack:
                self._writer.remove(self._prefix + each.key, each.etag)

    def _put(self, path: Path, mark: int, advance: Callable[[int], None]) -> None:
        key, size = self._prefix + path.name, path.stat().st_size
        found = self._writer.find(key)
        if found is not None and found.mark == mark:
            advance(size)
            return
        where = f"{self._bucket.address}/{path.name}"
        if found is not None and not self._force:
            raise UsageError(f"{where}: is of another dataset (--force replaces it)")
        with path.open("rb") as file:

            def read(offset: int, count: int) -> bytes:
                return os.pread(file.fileno(), count, offset)

            content = Content(size, mark, read, advance, lambda: True)
            try:
                self._writer.put(key, content, found.etag if found else "")
            except NameTaken:
                raise FanstoreError(f"{where}: somebody else writes there") from None
