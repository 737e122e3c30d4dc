"""Programs that train, as their users write them, and read one format each:

    readers.py READER DIRECTORY EPOCHS COMPUTE

READER-2 has two worker processes. The rank is $RANK, of $WORLD_SIZE. COMPUTE: bytes that the
training uses in a second; 0: it takes no time. Prints JSON for each epoch: its seconds, a checksum
over all samples in order, their bytes, the major page faults of this process and its workers, and
by how much the daemon's counts grew."""

from __future__ import annotations

import functools
import itertools
import json
import os
import random
import re
import resource
import sys
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from multiprocessing import active_children
from pathlib import Path
from typing import Any

import numpy as np
import torch
from contents import SEQUENCE
from counts import counts, grown
from torch.utils.data import DataLoader, Dataset, DistributedSampler

BATCH = 32
NANOGPT_PART = 8  # an "epoch" has this part of the tokens, at random places

Epochs = Callable[[int], Iterable[Any]]  # returns the batches of an epoch


@dataclass(frozen=True)
class Job:
    folder: Path
    epochs: int
    workers: int = 0
    rank: int = int(os.environ.get("RANK", "0"))
    ranks: int = int(os.environ.get("WORLD_SIZE", "1"))

    def loader(self, dataset: Any, **options: Any) -> Epochs:
        """Returns the epochs of a shuffled DataLoader, one rank of several."""
        options = {"batch_size": BATCH, "num_workers": self.workers, **options}
        if self.ranks == 1:
            loader = DataLoader(dataset, shuffle=True, **options)
            return lambda epoch: loader
        sampler = DistributedSampler(dataset, self.ranks, self.rank)
        shared = DataLoader(dataset, sampler=sampler, **options)

        def begun(epoch: int) -> Iterable[Any]:
            sampler.set_epoch(epoch)
            return shared

        return begun


def nanogpt(job: Job) -> Epochs:
    """nanoGPT's get_batch: a new memmap for each batch, at random places, without epochs."""
    path = job.folder / "train.bin"
    samples = path.stat().st_size // 2 // SEQUENCE // NANOGPT_PART // job.ranks

    def get_batch() -> tuple[torch.Tensor, torch.Tensor]:
        data = np.memmap(path, dtype=np.uint16, mode="r")
        ix = torch.randint(len(data) - SEQUENCE, (BATCH,))
        x, y = (
            torch.stack(
                [torch.from_numpy(data[i + n : i + n + SEQUENCE].astype(np.int64)) for i in ix]
            )
            for n in (0, 1)
        )
        return x, y

    return lambda epoch: (get_batch() for _ in range(samples // BATCH))


class MegatronSamples(Dataset):
    """The samples of Megatron's GPTDataset, over the map of its IndexedDataset or, as with
    --no-mmap-bin-files, its file."""

    def __init__(self, folder: Path, maps: bool) -> None:
        index = memoryview(np.memmap(folder / "text.idx", mode="r", order="C"))
        count = int(np.frombuffer(index, np.uint64, 1, 18)[0])
        self.lengths = np.frombuffer(index, np.int32, count, 34)
        self.starts = np.frombuffer(index, np.int64, count, 34 + self.lengths.nbytes)
        self.documents, self.samples, self.shuffled = (
            np.load(folder / f"{name}_index.npy", mmap_mode="r")
            for name in ("document", "sample", "shuffle")
        )
        self.path = folder / "text.bin"
        self.text = memoryview(np.memmap(self.path, mode="r", order="C")) if maps else None

    def __len__(self) -> int:
        return len(self.shuffled)

    def tokens(self, document: int, start: int, stop: int) -> np.ndarray:
        offset = int(self.starts[document]) + 2 * start
        if self.text is not None:
            return np.frombuffer(self.text, np.uint16, stop - start, offset)
        sequence = np.empty(stop - start, np.uint16)
        with open(self.path, "rb", buffering=0) as file:
            file.seek(offset)
            file.readinto(sequence)
        return sequence

    def __getitem__(self, at: int) -> torch.Tensor:
        sample = int(self.shuffled[at])
        (first, start), (last, end) = (
            self.samples[sample].tolist(),
            self.samples[sample + 1].tolist(),
        )
        parts = []
        for place in range(first, last + 1):
            document = int(self.documents[place])
            stop = end + 1 if place == last else int(self.lengths[document])
            parts.append(self.tokens(document, start if place == first else 0, stop))
        return torch.from_numpy(np.concatenate(parts).astype(np.int64))


class MegatronSampler:
    """Megatron's MegatronPretrainingSampler: indices in order, each rank its part of a batch."""

    def __init__(self, total: int, rank: int, ranks: int) -> None:
        self.total, self.rank, self.ranks = total, rank, ranks

    def __len__(self) -> int:
        return self.total // (BATCH * self.ranks)

    def __iter__(self) -> Iterator[list[int]]:
        batch = []
        for index in range(self.total):
            batch.append(index)
            if len(batch) == BATCH * self.ranks:
                yield batch[self.rank * BATCH : (self.rank + 1) * BATCH]
                batch = []


def megatron(job: Job, maps: bool = True) -> Epochs:
    samples = MegatronSamples(job.folder, maps)
    once = samples.path.stat().st_size // 2 // SEQUENCE
    sampler = MegatronSampler(once * job.epochs, job.rank, job.ranks)
    batches = iter(DataLoader(samples, batch_sampler=sampler, num_workers=job.workers))
    return lambda epoch: itertools.islice(batches, once // (BATCH * job.ranks))


def hf(job: Job) -> Epochs:
    import datasets

    return job.loader(datasets.load_from_disk(job.folder / "train").with_format("torch"))


class HdfRows(Dataset):
    """Rows of a chunked and a contiguous dataset, of a file that each process opens itself."""

    def __init__(self, path: Path) -> None:
        import h5py

        self.open = functools.partial(h5py.File, path, "r")
        self.file: Any = None
        with self.open() as file:
            self.count = len(file["inputs"])

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, at: int) -> tuple[np.ndarray, np.ndarray]:
        self.file = self.file or self.open()
        return self.file["inputs"][at], self.file["targets"][at]


def h5py(job: Job) -> Epochs:
    return job.loader(HdfRows(job.folder / "train.h5"))


class RowGroups(Dataset):
    def __init__(self, folder: Path) -> None:
        from pyarrow.parquet import ParquetFile

        files = [ParquetFile(path) for path in sorted(folder.iterdir())]
        self.groups = [(file, n) for file in files for n in range(file.num_row_groups)]

    def __len__(self) -> int:
        return len(self.groups)

    def __getitem__(self, at: int) -> np.ndarray:
        file, group = self.groups[at]
        values = file.read_row_group(group)["values"].combine_chunks()
        return values.flatten().to_numpy(zero_copy_only=False)


def parquet(job: Job) -> Epochs:
    return job.loader(RowGroups(job.folder), batch_size=None)


def parquet_loop(job: Job) -> Epochs:
    """Row groups in an order that the program draws by itself, without a loader."""
    groups = RowGroups(job.folder)

    def begun(epoch: int) -> Iterable[np.ndarray]:
        order = np.random.default_rng(epoch).permutation(len(groups))
        return (groups[at] for at in order[job.rank :: job.ranks])

    return begun


def webdataset(job: Job) -> Epochs:
    from webdataset import WebDataset, WebLoader, split_by_node

    shards = sorted(map(str, job.folder.iterdir()))
    samples = WebDataset(
        shards, shardshuffle=len(shards), detshuffle=True, seed=3, nodesplitter=split_by_node
    )
    samples = samples.shuffle(100, rng=random.Random(job.rank)).to_tuple("jpg", "cls")
    workers = {"num_workers": job.workers, "persistent_workers": job.workers > 0}
    loader = WebLoader(samples, batch_size=None, **workers)
    return lambda epoch: loader


def mds(job: Job) -> Epochs:
    from streaming import StreamingDataset

    samples = StreamingDataset(
        local=str(job.folder / "train"), remote=None, shuffle=True, batch_size=BATCH
    )
    loader = DataLoader(
        samples, batch_size=BATCH, num_workers=job.workers, collate_fn=lambda batch: batch
    )
    return lambda epoch: loader


READERS: dict[str, Callable[[Job], Epochs]] = {
    "nanogpt": nanogpt, "megatron": megatron,
    "megatron-file": functools.partial(megatron, maps=False),
    "hf": hf, "h5py": h5py, "parquet": parquet, "parquet-loop": parquet_loop,
    "webdataset": webdataset, "mds": mds,
}  # fmt: skip


def contents_of(batch: Any) -> Iterator[Any]:
    """Yields the buffers of a batch, in order."""
    if isinstance(batch, torch.Tensor):
        yield batch.contiguous().numpy().reshape(-1).view(np.uint8)
    elif isinstance(batch, dict):
        for each in batch.values():
            yield from contents_of(each)
    elif isinstance(batch, list | tuple):
        for each in batch:
            yield from contents_of(each)
    else:
        yield str(batch).encode() if isinstance(batch, int | str) else batch


class Training:
    """Uses `rate` bytes a second, in sleeps of a millisecond or more."""

    def __init__(self, rate: float) -> None:
        self.rate, self.owed_s = rate, 0.0

    def step(self, size: int) -> None:
        self.owed_s += size / self.rate if self.rate else 0
        if self.owed_s > 0.001:
            start_s = time.monotonic()
            time.sleep(self.owed_s)
            self.owed_s -= time.monotonic() - start_s


def train(batches: Iterable[Any], training: Training) -> tuple[int, int]:
    """Returns the checksum and the bytes of an epoch."""
    checksum = size = 0
    for batch in batches:
        before = size
        for content in contents_of(batch):
            checksum, size = (
                zlib.crc32(content, checksum),
                size + len(memoryview(content).cast("B")),
            )
        training.step(size - before)
    return checksum, size


def major_faults() -> int:
    """Returns how often this process and its workers have waited for a page of a map."""
    who = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    running = [Path(f"/proc/{each.pid}/stat").read_text() for each in active_children()]
    return sum(resource.getrusage(each).ru_majflt for each in who) + sum(
        int(stat.rpartition(")")[2].split()[9]) for stat in running
    )


def main() -> None:
    name, workers = re.fullmatch(r"(.*?)(?:-(\d+))?", sys.argv[1]).groups()
    job = Job(Path(sys.argv[2]), int(sys.argv[3]), int(workers or 0))
    torch.manual_seed(1337 + job.rank)
    torch.set_num_threads(1)
    training, epochs, before = Training(float(sys.argv[4])), READERS[name](job), counts()
    for epoch in range(job.epochs):
        start_s, faults = time.monotonic(), major_faults()
        checksum, size = train(epochs(epoch), training)
        seconds, after = time.monotonic() - start_s, counts()
        told = {
            "rank": job.rank, "seconds": seconds, "checksum": checksum, "bytes": size,
            "faults": major_faults() - faults, "counts": grown(before, after),
        }  # fmt: skip
        print(json.dumps(told), flush=True)
        before = after


if __name__ == "__main__":
    main()
