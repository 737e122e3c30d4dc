"""All files of a directory, mount or packed dataset, as samples."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.utils.data

from fanstore.torch.batches.collating import WholeBatch, whole_batch
from fanstore.torch.files.sources import Packed, source_of


class FileDataset(torch.utils.data.Dataset):
    """The content of each regular file below a directory: one sample a file.

    root: a packed dataset, a directory, or a mount of FanStore. A packed dataset is read out of its
    packs or, in a job that has it mounted, through the job. loader: makes a sample of a file's
    content, which it is given as a bytearray; by default a tensor of uint8 (bytes of the file).
    transform: is given that sample, and returns what dataset[i] is.

    The order is that of fanstore.Dataset, also where root is a directory: folders level by level,
    names sorted as bytes. Symbolic links are not followed. Where neither loader nor transform is
    given, fanstore.torch.DataLoader reads the files of a batch at once into the batch's memory, if
    all have one size. Raises FanstoreError where a packed dataset is not sound, and OSError.
    dataset[i] raises IndexError, OSError, DatasetDamaged, and what loader and transform raise.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        transform: Callable[[Any], Any] | None = None,
        loader: Callable[[bytearray], Any] | None = None,
    ) -> None:
        self._source = source_of(root)
        self.root = self._source.top
        self.transform = transform
        self.loader = loader
        self._files: Sequence[Any] = self._source.files()

    def __len__(self) -> int:
        """Returns the number of files."""
        return len(self._files)

    def __getitem__(self, index: int) -> Any:
        content = self._source.content(self._files[operator.index(index)])
        if self.loader is not None:
            sample = self.loader(content)
        elif content:
            sample = torch.frombuffer(content, dtype=torch.uint8)
        else:
            sample = torch.empty(0, dtype=torch.uint8)
        return sample if self.transform is None else self.transform(sample)

    def __getitems__(self, indices: Sequence[int]) -> Sequence[Any]:
        """Returns the samples `indices`; in a worker of fanstore.torch.DataLoader, where it may,
        as one array that lies where the batch does."""
        batch: WholeBatch | None = None

        def room(size: int) -> Any:
            nonlocal batch
            batch = whole_batch(len(indices), size) if size else None
            return None if batch is None else batch.rows

        if self.loader is None and self.transform is None and len(indices) > 0:
            files = list(map(self._files.__getitem__, indices))
            if self._source.read_batch(files, room) and batch is not None:
                return batch
        return [self[index] for index in indices]

    def path_of(self, index: int) -> str:
        """Returns the path of the file of sample `index`, relative to the root. Raises
        IndexError."""
        file = self._files[operator.index(index)]
        return self._source.path_of(file) if isinstance(self._source, Packed) else str(file)
