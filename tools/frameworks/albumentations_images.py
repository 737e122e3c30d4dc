# does: transforms over images of the mount, saved to and loaded from JSON
# needs: albumentations opencv-python-headless numpy
import os

import cv2
import numpy as np
from case import run

os.environ["NO_ALBUMENTATIONS_UPDATE"] = "1"


def make(directory):
    for n in range(4):
        cv2.imwrite(str(directory / f"{n}.png"), np.full((32, 32, 3), n, "u1"))


def use(directory):
    import albumentations as A

    turn = A.Compose([A.HorizontalFlip(p=1), A.CenterCrop(16, 16)])
    A.save(turn, directory / "out" / "turn.json")
    again = A.load(directory / "out" / "turn.json")
    for path in sorted(directory.glob("*.png")):
        image = again(image=cv2.imread(str(path)))["image"]
        cv2.imwrite(str(directory / "out" / path.name), image)
        print(path.name, image.shape, int(image.sum()))


run(make, use)
