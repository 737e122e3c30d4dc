"""Sends a new dataset to a bucket: its packs first, and its index last, so that nothing is seen of
a dataset that is not whole."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import xxhash

from fanstore.atomic import Ended, Interrupted
from fanstore.buckets.bucket import Bucket
from fanstore.buckets.keys import list_objects
from fanstore.buckets.writing import Content, NameTaken, Writer
from fanstore.dataset import INDEX_NAME, MANIFEST_NAME, open_index, pack_name
from fanstore.errors import UsageError

_DEADLINE_S = 300.0


class BucketDestination:
    """The place of a new dataset in a bucket."""

    def __init__(self, address: str, force: bool) -> None:
        """Raises UsageError if a dataset is there and is not to be replaced, BucketRefused if
        nothing can be written."""
        self._bucket = Bucket(address)
        self._force = force
        self._writer = Writer(self._bucket, _DEADLINE_S)
        self._writer.try_out()
        if not force and self._writer.find(INDEX_NAME) is not None:
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
                self._writer.remove(each.key, each.etag)

    def _put(self, path: Path, mark: int, advance: Callable[[int], None]) -> None:
        with path.open("rb") as file:
            content = Content(file.fileno(), path.stat().st_size, mark, advance)
            try:
                self._writer.write(path.name, content, lambda _: self._force, look=True)
            except NameTaken:
                where = f"{self._bucket.address}/{path.name}"
                raise UsageError(f"{where}: is of another dataset (--force replaces it)") from None
