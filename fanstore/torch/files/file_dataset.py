"""Datasets whose samples are the files of a directory, mount or packed dataset: all files, or
images with one folder for each class as in torchvision's ImageFolder."""

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
    content, a bytearray; by default a tensor of uint8 (bytes of the file). transform: takes that
    sample, and returns dataset[i].

    The order is that of fanstore.Dataset, also if root is a directory: folders level by level,
    names sorted as bytes. Symbolic links are not followed. If neither loader nor transform is given
    and all files of a batch have one size, fanstore.torch.DataLoader reads them at once into the
    batch's memory. Raises FanstoreError if a packed dataset is not sound, and OSError. dataset[i]
    raises IndexError, OSError, DatasetDamaged, and the errors of loader and transform.
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
        """Returns the samples `indices`. In a worker of fanstore.torch.DataLoader they may be one
        array in the batch's memory."""
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
        """Returns the path of sample `index`'s file, relative to the root. Raises IndexError."""
        file = self._files[operator.index(index)]
        return self._source.path_of(file) if isinstance(self._source, Packed) else str(file)


EXTENSIONS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")


class ImageFolder(torch.utils.data.Dataset):
    """Images of a directory, a mount or a packed dataset; the folders at its top are the classes.
    Samples are (image, class number), as in torchvision.datasets.ImageFolder.

    root: as of FileDataset. transform: takes the image, and target_transform the class number.
    loader: makes an image of a file, given as a path or, of a packed dataset that is not mounted,
    as a binary stream; by default Pillow's, in RGB. is_valid_file: decides by a path whether the
    file is a sample, instead of its extension. allow_empty: whether a class may have no image.

    classes: the names of the classes, sorted. class_to_idx: the number of each. samples, imgs:
    (path, class number) of each image, links followed; paths are root/class/..., also of a packed
    dataset. targets: the class numbers. Raises FileNotFoundError if there is no class, or one
    without an image, FanstoreError if a packed dataset is not sound, and OSError.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        transform: Callable[[Any], Any] | None = None,
        target_transform: Callable[[int], Any] | None = None,
        loader: Callable[[Any], Any] | None = None,
        is_valid_file: Callable[[str], bool] | None = None,
        allow_empty: bool = False,
    ) -> None:
        self._source = source_of(root)
        self.root = self._source.top
        self.transform = transform
        self.target_transform = target_transform
        self.loader = loader or image_of
        self.extensions = EXTENSIONS if is_valid_file is None else None
        self.classes = sorted(self._source.folders())
        if not self.classes:
            raise FileNotFoundError(f"Couldn't find any class folder in {self.root}.")
        self.class_to_idx = {name: number for number, name in enumerate(self.classes)}
        self.samples = self._found(is_valid_file or _has_extension)
        self.targets = [target for _, target in self.samples]
        self.imgs = self.samples
        empty = sorted(set(self.classes) - {self.classes[target] for target in self.targets})
        if empty and not allow_empty:
            said = f"Found no valid file for the classes {', '.join(empty)}. "
            if self.extensions is not None:
                said += f"Supported extensions are: {', '.join(self.extensions)}"
            raise FileNotFoundError(said)

    def _found(self, is_valid: Callable[[str], bool]) -> list[tuple[str, int]]:
        found = []
        for name, number in self.class_to_idx.items():
            for folder, _, names in sorted(self._source.walk(name)):
                paths = [os.path.join(self.root, folder, each) for each in sorted(names)]
                found += [(path, number) for path in paths if is_valid(path)]
        return found

    def __len__(self) -> int:
        """Returns the number of images."""
        return len(self.samples)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        path, target = self.samples[index]
        sample = self.loader(self._source.opened(path))
        if self.transform is not None:
            sample = self.transform(sample)
        return sample, target if self.target_transform is None else self.target_transform(target)


def image_of(file: Any) -> Any:
    """Returns the image, in RGB, of a file: a path or a binary stream. Raises OSError."""
    from PIL import Image

    with Image.open(file) as image:
        return image.convert("RGB")


def _has_extension(path: str) -> bool:
    return path.lower().endswith(EXTENSIONS)
