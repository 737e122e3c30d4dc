"""Images in one folder a class, as torchvision's ImageFolder has them."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import torch.utils.data

from fanstore.torch.files.sources import source_of

EXTENSIONS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")


class ImageFolder(torch.utils.data.Dataset):
    """Images of a directory, a mount or a packed dataset, whose folders at the top are the classes.
    Samples are (image, class number), as torchvision.datasets.ImageFolder has them.

    root: as of FileDataset. transform: is given the image, and target_transform the class number.
    loader: makes an image of a file, which it is given as a path or, of a packed dataset that is
    not mounted, as a binary stream; by default Pillow's, in RGB. is_valid_file: tells of a path
    whether it is a sample, instead of its extension. allow_empty: whether a class may have none.

    classes: their names, sorted. class_to_idx: the number of each. samples, imgs: (path, class
    number) of each, links followed; paths are root/class/..., also of a packed dataset. targets:
    the class numbers. Raises FileNotFoundError where there is no class, or one without an image,
    FanstoreError where a packed dataset is not sound, and OSError.
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
    """Returns the image of a file, a path or a binary stream, in RGB. Raises OSError."""
    from PIL import Image

    with Image.open(file) as image:
        return image.convert("RGB")


def _has_extension(path: str) -> bool:
    return path.lower().endswith(EXTENSIONS)
