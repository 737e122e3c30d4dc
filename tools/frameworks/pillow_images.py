# does: open and save PNG and JPEG
# needs: pillow
from case import run
from PIL import Image


def make(directory):
    for n in range(10):
        Image.new("RGB", (64, 64), (n, 2 * n, 3 * n)).save(directory / f"{n}.png")


def use(directory):
    print(sum(sum(Image.open(p).convert("RGB").getpixel((3, 3))) for p in directory.glob("*.png")))
    Image.open(directory / "3.png").save(directory / "out" / "3.jpg")
    print(Image.open(directory / "out" / "3.jpg").size)


run(make, use)
