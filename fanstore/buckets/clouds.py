"""Buckets of Google (gs://) and containers of Azure (az://), which are only read: obstore finds the
credentials, signs, lists, and fetches."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from fanstore.buckets.address import parse
from fanstore.buckets.bucket import Bucket, ListedObject, is_forked, object_state
from fanstore.buckets.patience import BucketRefused, Check, ObjectChanged, SideBySide, patiently
from fanstore.errors import show_path

_THREADS = 16
_PAGE_OBJECTS, _PAGE_S = 1000, 60.0
_BAD_KEY = re.compile(r'Path "(.*?)"(?: contained|: Encountered)', re.DOTALL)
_PLACES = {"gs": "GOOGLE_BASE_URL", "az": "AZURE_STORAGE_ACCOUNT_NAME"}  # users' variables


def open_bucket(address: str) -> Bucket:
    """Returns the objects at an address, to be read. Raises UsageError as Bucket does."""
    return (CloudBucket if parse(address).scheme in _PLACES else Bucket)(address)


class CloudBucket(Bucket):
    """The objects below an address of gs:// or az://."""

    def _set_up(self, _: Any) -> None:
        self._credentials, self._region = True, ""  # obstore knows them
        self.endpoint = os.environ.get(_PLACES[self.address.scheme], "the usual server")

    def _opened(self, stores: Any, options: dict[str, Any]) -> Any:
        store = stores.GCSStore if self.address.scheme == "gs" else stores.AzureStore
        return store(self.address.bucket, client_options=options)

    def _get_plainly(self, where: str, name: str, offset: int, count: int) -> Any:
        self._check_process()
        return self._get_quickly(where, name, offset, count)

    def _check_process(self) -> None:
        if is_forked():
            raise BucketRefused(
                f"{self.address}: {self.address.scheme}:// cannot be read in a forked process; "
                "start processes with the method spawn or forkserver"
            )

    def objects(self, check: Callable[[int], None]) -> list[ListedObject]:
        """Does what list_objects does."""
        self._check_process()
        found: list[ListedObject] = []
        with SideBySide(_THREADS, lambda: check(len(found))) as requests:
            once = partial(self._list, found, requests.check)
            where = str(self.address)
            requests.result(requests.submit(patiently, once, where, 0, _PAGE_S, requests.check))
            empty = [each for each in found if not each.size]
            work = [requests.submit(self._as_named, each, requests.check) for each in empty]
            named = [*(each for each in found if each.size), *map(requests.result, work)]
        return sorted(named, key=lambda each: each.key)

    def _list(self, found: list[ListedObject], check: Check) -> None:
        import obstore
        from obstore.exceptions import BaseError

        found.clear()
        prefix = self.address.prefix
        try:
            for page in obstore.list(self._store, prefix or None, chunk_size=_PAGE_OBJECTS):
                check()
                self._count(requests=1)
                for each in page:
                    key, etag = each["path"][len(prefix) :], each["e_tag"] or ""
                    mtime_ns = round(each["last_modified"].timestamp() * 1000) * 1_000_000
                    found.append(ListedObject(key, each["size"], etag, mtime_ns))
        except (BaseError, OSError) as error:
            if key := _BAD_KEY.search(str(error)):
                why = f"is no path, so obstore lists none: {show_path(key[1].encode())}"
                raise BucketRefused(f"{self.address}: the key of an object {why}") from None
            raise self._failure_of(str(self.address), error) from None

    def _as_named(self, listed: ListedObject, check: Check) -> ListedObject:
        """Returns an empty object with its own key: obstore names the mark of a directory, of which
        the key is "a/", as "a"."""
        try:
            self.fetch(listed.key, 0, 0, 0, object_state(listed.etag, 0), _PAGE_S, check)
            return listed
        except ObjectChanged:
            return replace(listed, key=listed.key + "/")
