"""A service of outputs in the tests' own process, over a job directory of a test's own."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

from object_files import names_of_objects
from output_client import Client
from serving import wait_for

from fanstore._native import lib
from fanstore.dataset import Dataset
from fanstore.outputs.service.service import SOCKET, Mount, OutputService
from fanstore.outputs.stageout.stageout import StageOut
from fanstore.serve.protocol import bind
from fanstore.serve.segment import MountEntry, write_segment


class NoStageOut(StageOut):
    """A stage-out that places nothing."""

    def __init__(self, *_: object) -> None:
        pass

    def __getattribute__(self, name: str) -> Any:
        if name in ("flush", "account"):
            return _nothing
        found = {"figures": {}, "together": contextlib.nullcontext()}.get(name)
        return lambda *_: found


async def _nothing(*_: object) -> dict[str, Any]:
    return {}


class Served:
    """A service over a job directory of a test's own."""

    def __init__(self, directory: Path, dataset: Dataset, keep_partial: bool = False) -> None:
        self.path = os.fspath(directory)
        prefix = "/somewhere"
        entry = MountEntry(
            prefix=prefix, alias="", skeleton=prefix, index_path=str(dataset.index_path),
            staged_dir=str(dataset.directory), dataset_dir=str(dataset.directory), device=1,
            record_count=dataset.header.record_count, prefix_made=False,
            places=[int(lib.FAN_PLACE_STAGED)] * dataset.pack_count,
        )  # fmt: skip
        segment = os.path.join(self.path, "segment")
        write_segment(segment, [entry], os.getpid())
        mounts = [Mount(dataset, (prefix.encode(),))]
        self.service = OutputService(
            self.path,
            segment,
            bind(self.path, SOCKET),
            mounts,
            NoStageOut,
            keep_partial=keep_partial,
        )
        self.service.start()
        self.client = Client(self.path)

    def is_there(self, path: bytes) -> bool:
        """Whether something is published."""
        try:
            self.client.lookup(path)
        except FileNotFoundError:
            return False
        return True

    def objects(self) -> list[str]:
        """The real files."""
        return names_of_objects(self.path)

    def counted(self, what: str) -> int:
        """One of the figures."""
        return int(self.service.figures()[what])

    def wait_for_count(self, what: str, count: int) -> None:
        """Until a figure has come to that."""
        wait_for(lambda: self.counted(what) == count, f"{what} to be {count}")
