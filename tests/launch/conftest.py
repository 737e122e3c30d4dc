"""Buckets for the tests of this folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from buckets import TestBucket, bucket_server


@pytest.fixture(scope="module")
def make_bucket() -> Iterator[Callable[[], TestBucket]]:
    with bucket_server() as make:
        yield make


@pytest.fixture
def bucket(make_bucket: Callable[[], TestBucket]) -> TestBucket:
    return make_bucket()
