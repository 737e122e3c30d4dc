# does: ImageFolder, decode_image, FashionMNIST, a loader with persistent workers, save_image
# needs: torchvision torch pillow
import struct

import torch
import torchvision
from case import run
from PIL import Image


def make(directory):
    for kind in ("cat", "dog"):
        (directory / "images" / kind).mkdir(parents=True)
        for n in range(16):
            Image.new("RGB", (32, 32), (n, n, n)).save(directory / "images" / kind / f"{n}.jpg")
    raw = directory / "FashionMNIST" / "raw"
    raw.mkdir(parents=True)
    for part in ("train", "t10k"):
        images = struct.pack(">4i", 2051, 4, 28, 28) + bytes(4 * 28 * 28)
        labels = struct.pack(">2i", 2049, 4) + bytes([1, 2, 3, 4])
        for name, content in (("images-idx3", images), ("labels-idx1", labels)):
            (raw / f"{part}-{name}-ubyte").write_bytes(content)


def use(directory):
    turn = torchvision.transforms.ToTensor()
    images = torchvision.datasets.ImageFolder(directory / "images", turn)
    loader = torch.utils.data.DataLoader(images, 8, num_workers=2, persistent_workers=True)
    for _ in range(2):
        print(images.classes, sum(float(x.sum()) + int(y.sum()) for x, y in loader))
    print(torchvision.io.decode_image(str(directory / "images" / "cat" / "3.jpg")).shape)
    print([label for _, label in torchvision.datasets.FashionMNIST(directory, transform=turn)])
    torchvision.utils.save_image(torch.ones(4, 3, 8, 8), directory / "out" / "grid.png")


if __name__ == "__main__":
    run(make, use)
