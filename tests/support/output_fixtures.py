"""Fixtures of the tests of a service of outputs: the service, and processes that write by it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from output_client import Program, programs
from output_service import Served
from serving import make_stage

from fanstore.dataset import Dataset, open_dataset


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dataset]:
    stage = make_stage(tmp_path_factory.mktemp("writer"))
    source = stage.source("plain", {"input": b"in", "d/input": b"in d"})
    with open_dataset(stage.dataset(source)) as opened:
        yield opened


@pytest.fixture
def served(tmp_path: Path, dataset: Dataset) -> Iterator[Served]:
    made = Served(tmp_path, dataset)
    yield made
    made.service.close()


@pytest.fixture
def writer(served: Served) -> Iterator[Program]:
    with programs(served.path, 1) as made:
        yield made[0]


@pytest.fixture
def pair(served: Served) -> Iterator[list[Program]]:
    with programs(served.path, 2) as made:
        yield made
