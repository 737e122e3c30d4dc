"""Makes the files of one format, with content from a fixed seed:

contents.py FORMAT DIRECTORY BYTES
"""

from __future__ import annotations

import io
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

MIB = 1 << 20
VOCABULARY = 50_257  # of GPT-2; a token takes two bytes
SEQUENCE = 1024  # tokens of a sample
EPOCHS_MOST = 8  # that Megatron's indexes cover
ROW = 2048  # numbers of a row, of four bytes each
ROW_BYTES = 4 * ROW
CHUNK_ROWS = 4
GROUP_ROWS = 128  # a row group has 1 MiB
PARQUET_FILES = 8
SHARD_BYTES = 20 * MIB
IMAGE_BYTES = 100 << 10

chance = np.random.default_rng(5)


def tokens(count: int) -> np.ndarray:
    return chance.integers(VOCABULARY, size=count, dtype=np.uint16)


def rows(count: int) -> np.ndarray:
    return chance.integers(VOCABULARY, size=(count, ROW), dtype=np.int32)


def nanogpt(folder: Path, size: int) -> None:
    tokens(size // 2).tofile(folder / "train.bin")


def megatron(folder: Path, size: int) -> None:
    """Writes documents as Megatron's IndexedDataset has them, and the three indexes that its
    GPTDataset keeps beside them."""
    tokens(size // 2).tofile(folder / "text.bin")
    lengths = chance.integers(100, 2000, size=size // 2 // 1050, dtype=np.int32)
    lengths = lengths[: np.searchsorted(np.cumsum(lengths), size // 2)]
    starts = np.cumsum(2 * lengths.astype(np.int64)) - 2 * lengths
    with open(folder / "text.idx", "wb") as index:
        index.write(b"MMIDIDX\x00\x00" + np.array([1], "<u8").tobytes() + b"\x08")
        index.write(np.array([len(lengths), len(lengths) + 1], "<u8").tobytes())
        for part in (lengths, starts, np.arange(len(lengths) + 1)):
            index.write(part.tobytes())
    documents = np.concatenate([np.arange(len(lengths), dtype=np.int32)] * EPOCHS_MOST)
    chance.shuffle(documents)
    ends = np.cumsum(lengths[documents].astype(np.int64))
    begins = np.arange(0, ends[-1], SEQUENCE)
    places = np.searchsorted(ends, begins, side="right")
    before = np.where(places > 0, ends[places - 1], 0)
    samples = np.stack([places, begins - before], axis=1).astype(np.int32)
    np.save(folder / "document_index.npy", documents)
    np.save(folder / "sample_index.npy", samples)
    np.save(folder / "shuffle_index.npy", chance.permutation(len(samples) - 1).astype(np.uint32))


def hf(folder: Path, size: int) -> None:
    import datasets

    features = datasets.Features(
        {"input_ids": datasets.Sequence(datasets.Value("int32"), length=ROW)}
    )
    columns = {"input_ids": list(rows(size // ROW_BYTES))}
    made = datasets.Dataset.from_dict(columns, features=features)
    made.save_to_disk(folder / "train", num_shards=max(2, size // (16 * MIB)))


def h5py(folder: Path, size: int) -> None:
    import h5py

    half = rows(size // 2 // ROW_BYTES)
    with h5py.File(folder / "train.h5", "w") as file:
        file.create_dataset("inputs", data=half, chunks=(CHUNK_ROWS, ROW))
        file.create_dataset("targets", data=half[::-1])


def parquet(folder: Path, size: int) -> None:
    import pyarrow
    from pyarrow.parquet import write_table

    count = size // ROW_BYTES // PARQUET_FILES
    for number in range(PARQUET_FILES):
        values = pyarrow.array(rows(count).reshape(-1))
        table = pyarrow.table({"values": pyarrow.FixedSizeListArray.from_arrays(values, ROW)})
        path = folder / f"{number:03}.parquet"
        write_table(table, path, row_group_size=GROUP_ROWS, use_dictionary=False)


def webdataset(folder: Path, size: int) -> None:
    for number in range(max(4, size // SHARD_BYTES)):
        with tarfile.open(folder / f"{number:04}.tar", "w") as shard:
            for image in range(SHARD_BYTES // IMAGE_BYTES):
                for kind, content in (("jpg", chance.bytes(IMAGE_BYTES)), ("cls", b"7")):
                    member = tarfile.TarInfo(f"{number:04}-{image:04}.{kind}")
                    member.size = len(content)
                    shard.addfile(member, io.BytesIO(content))


def mds(folder: Path, size: int) -> None:
    from streaming import MDSWriter

    columns = {"image": "bytes", "kind": "int"}
    with MDSWriter(out=str(folder / "train"), columns=columns, size_limit=SHARD_BYTES) as out:
        for number in range(size // IMAGE_BYTES):
            out.write({"image": chance.bytes(IMAGE_BYTES), "kind": number % 10})


FORMATS: dict[str, Callable[[Path, int], None]] = {
    each.__name__: each for each in (nanogpt, megatron, hf, h5py, parquet, webdataset, mds)
}

if __name__ == "__main__":
    place = Path(sys.argv[2])
    place.mkdir(parents=True)
    FORMATS[sys.argv[1]](place, int(sys.argv[3]))
