"""The order of shards of webdataset, MosaicML's streaming and litdata."""

from __future__ import annotations

import io
import itertools
import random
import sys
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from serving import make_stage

from fanstore.in_job import rows, shards

_SHARDS, _SAMPLES = 60, 20
_HEARD: list[list[str]] = []  # where the names of opened files go


def _hear(event: str, arguments: Any) -> None:
    if event == "open" and isinstance(arguments[0], str):
        for heard in _HEARD:
            heard.append(arguments[0])


sys.addaudithook(_hear)


@contextmanager
def opened() -> Iterator[list[str]]:
    _HEARD.append([])
    yield _HEARD[-1]
    _HEARD.pop()


def tars(place: Path) -> list[str]:
    """Writes tar files of a few samples."""
    place.mkdir()
    for number in range(_SHARDS):
        with tarfile.open(place / f"{number:03}.tar", "w") as shard:
            for sample in range(_SAMPLES):
                member = tarfile.TarInfo(f"{_SAMPLES * number + sample:06}.txt")
                member.size = 3
                shard.addfile(member, io.BytesIO(b"abc"))
    return sorted(str(each) for each in place.iterdir())


def coming(iterator: Any) -> list[str]:
    found = shards.coming(rows, rows.reached(iterator))
    return [] if found is None else [found.paths[number] for number in found.numbers]


def third(source: Iterator[Any]) -> Iterator[Any]:
    """Splits shards in a way of its own."""
    return itertools.islice(source, 1, None, 3)


@pytest.mark.parametrize(
    "how",
    [
        {"shardshuffle": 100},
        {"shardshuffle": 7, "seed": 4},
        {"shardshuffle": 10, "detshuffle": True},
        {"shardshuffle": 1000, "workersplitter": third},
        {"shardshuffle": False},
    ],
)
@pytest.mark.parametrize("buffer", [1, 100])
def test_shards_of_webdataset(tmp_path: Path, how: dict[str, Any], buffer: int) -> None:
    webdataset = pytest.importorskip("webdataset")
    data = webdataset.WebDataset(tars(tmp_path / "tars"), **how).shuffle(buffer)
    for _ in range(2):
        iterator, before = iter(data), random.getstate()
        with opened() as files:
            whole = coming(iterator)
            next(iterator)
            passed = len(files)
            rest = coming(iterator)
            list(iterator)
        assert rest == (files[passed:] if how["shardshuffle"] else [])
        assert whole == (files if "workersplitter" not in how else [])
        assert random.getstate() == before


@pytest.mark.parametrize("workers", [1, 3])
def test_shards_that_webdataset_draws_with_replacement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    webdataset = pytest.importorskip("webdataset")
    monkeypatch.setenv("WORKER", "0")
    monkeypatch.setenv("NUM_WORKERS", str(workers))
    data = webdataset.WebDataset(tars(tmp_path / "tars"), resampled=True).shuffle(30)
    for _ in range(2):
        iterator = iter(data)
        with opened() as files:
            assert coming(iterator) == []
            next(iterator)
            passed = len(files)
            rest = coming(iterator)
            for _ in range(900):
                next(iterator)
        files = [each for each in files if each.endswith(".tar")]
        assert len(files) > 40
        assert files[passed:] == rest[: len(files) - passed]


def test_shards_of_webdataset_without_a_seed(tmp_path: Path) -> None:
    webdataset = pytest.importorskip("webdataset")
    steps = webdataset.shuffle(30), webdataset.tarfile_to_samples()
    data = webdataset.DataPipeline(webdataset.SimpleShardList(tars(tmp_path / "tars")), *steps)
    iterator = iter(data)
    with opened() as files:
        assert coming(iterator) == []
        next(iterator)
        rest = coming(iterator)
        list(iterator)
    assert len(files) == _SHARDS
    assert rest == files[1:]


def mds(place: Path) -> Callable[[], Any]:
    streaming = pytest.importorskip("streaming")
    columns = {"number": "int"}
    with streaming.MDSWriter(out=str(place), columns=columns, size_limit=400) as out:
        for number in range(_SHARDS * _SAMPLES):
            out.write({"number": number})
    return lambda: streaming.StreamingDataset(local=str(place), shuffle=True, batch_size=1)


def chunks(place: Path) -> Callable[[], Any]:
    litdata = pytest.importorskip("litdata")
    out = litdata.streaming.writer.BinaryWriter(str(place), chunk_size=_SAMPLES)
    for number in range(_SHARDS * _SAMPLES):
        out[number] = {"number": number}
    out.done()
    out.merge()
    return lambda: litdata.StreamingDataset(str(place), shuffle=True)


@pytest.mark.parametrize("written", [mds, chunks])
def test_shards_of_streaming_datasets(tmp_path: Path, written: Any) -> None:
    data = written(tmp_path / "shards")()
    for _ in range(2):
        iterator = iter(data)
        with opened() as files:
            early = coming(iterator)
            next(iterator)
            passed = len(files)
            rest = coming(iterator)
            del files[passed:]  # it has looked at the heads of shards
            list(iterator)
        files = [each for each in files if each.endswith((".mds", ".bin"))]
        if written is mds:  # opens a shard for each sample, and has begun no order before the first
            assert files[1:] == rest
        else:
            assert list(dict.fromkeys(files)) == early
            assert early[-len(rest) :] == rest


def test_ranges_of_mds(tmp_path: Path) -> None:
    """Each sample reads where it lies from the head of its shard, and then its content."""
    data = mds(tmp_path / "shards")()
    iterator = iter(data)
    first = int(next(iterator)["number"])
    found = shards.coming(rows, rows.reached(iterator))
    assert found is not None
    content = {number: Path(path).read_bytes() for number, path in enumerate(found.paths)}
    parts: dict[int, list[bytes]] = {}
    assert found.ranges is not None
    table = np.array(found.ranges()).reshape(-1, 5)
    for shard, sample, count, begin, end in table.tolist():
        assert count == 1 and shard == found.numbers[sample]
        parts.setdefault(sample, []).append(content[shard][begin:end])
    assert len(parts) == len(found.numbers) == _SHARDS * _SAMPLES - 1
    for (sample, (value, place)), read in zip(sorted(parts.items()), iterator, strict=True):
        begin, end = np.frombuffer(place, "<u4")
        assert content[found.numbers[sample]][begin:end] == value
        assert int.from_bytes(value[-8:], "little") == read["number"] != first


_JOB = """
import glob, random, sys, torch, webdataset
torch.manual_seed(3)
random.seed(3)
data = webdataset.WebDataset(sorted(glob.glob(sys.argv[1] + "/*.tar")), shardshuffle=100, seed=4)
for _ in range(2):
    for batch in torch.utils.data.DataLoader(data.shuffle(10, seed=5), None, num_workers=2):
        print(batch["__key__"], end=" ")
print(random.random(), torch.rand(1).item(), torch.initial_seed())
"""


def test_a_job_with_webdataset_is_known_and_notices_nothing(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("webdataset")
    stage = make_stage(tmp_path)
    files = {Path(each).name: Path(each).read_bytes() for each in tars(tmp_path / "tars")}
    stage.dataset(stage.source(files=files))
    mount = str(stage.path / "plain")
    command = ("--mount", mount, "--", sys.executable, "-c", _JOB, mount)
    watched, alone = (
        stage.call("run", "--dataset", str(stage.path / "data"), *command, FANSTORE_ORDER=order)
        for order in ("auto", "off")
    )
    assert watched.stdout == alone.stdout
    assert "known for 100.0 % of opens (torch WebDataset, its files)" in watched.stderr
