"""The job of epoch_job.py, written for a bucket: its dataset fetches objects with s3fs, or is
mosaicml-streaming's, of shards that lie in the bucket. Prints the same."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from typing import Any

import torch
from epoch_job import BATCH, WORKERS, epochs_of, measured
from torch.utils.data import DataLoader, Dataset


class Objects(Dataset):  # type: ignore[type-arg]
    """The objects below a prefix; a sample is the content of one."""

    def __init__(self, prefix: str) -> None:
        self.keys = self._files().find(prefix)

    def _files(self) -> Any:  # fsspec keeps one for each process
        import s3fs

        return s3fs.S3FileSystem(endpoint_url=os.environ["AWS_ENDPOINT_URL"])

    def __len__(self) -> int:
        return len(self.keys)

    def __getitem__(self, index: int) -> torch.Tensor:
        content = self._files().cat_file(self.keys[index])
        return torch.frombuffer(bytearray(content), dtype=torch.uint8)


def of_shards(job: argparse.Namespace) -> Iterator[DataLoader[Any]]:
    """Yields a loader for each epoch."""
    from streaming import StreamingDataset

    class Samples(StreamingDataset):  # type: ignore[misc]
        def __getitem__(self, index: int) -> torch.Tensor:
            return torch.frombuffer(bytearray(super().__getitem__(index)["x"]), dtype=torch.uint8)

    samples = Samples(
        remote=f"s3://{job.directory}", local=job.local, shuffle=True, shuffle_seed=1,
        batch_size=BATCH,
    )  # fmt: skip
    loader = DataLoader(samples, batch_size=BATCH, num_workers=WORKERS)
    for _ in range(job.epochs):
        yield loader


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("directory", help="BUCKET/PREFIX")
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--epochs", type=int, required=True)
    parser.add_argument("--compute", type=float, help="bytes a second; 0: takes no time")
    parser.add_argument("--local", help="mosaicml-streaming's directory, for the shards")
    job = parser.parse_args()
    measured(of_shards(job) if job.local else epochs_of(Objects(job.directory), job), job)


if __name__ == "__main__":
    main()
