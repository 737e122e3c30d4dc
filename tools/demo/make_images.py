"""Writes scikit-learn's handwritten digits as image files in class directories.

make_images.py FOLDER      FOLDER/0/0000.png ... FOLDER/9/1796.png: 1,797 files
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits


def main() -> None:
    folder = Path(sys.argv[1])
    digits = load_digits()
    for number, (pixels, label) in enumerate(zip(digits.images, digits.target, strict=True)):
        path = folder / str(label) / f"{number:04}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray((pixels * 255 / 16).astype(np.uint8)).save(path)


if __name__ == "__main__":
    main()
