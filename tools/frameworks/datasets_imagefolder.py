# does: HF datasets: imagefolder with its cache in the mount, map with 2 processes, streaming
# needs: datasets>=5.2 pillow torch
import os
import sys

os.environ["HF_HOME"] = os.path.join(sys.argv[2], "out", "hf")
import datasets
from case import run
from PIL import Image

datasets.disable_progress_bars()


def make(directory):
    for kind in ("cat", "dog"):
        (directory / "images" / kind).mkdir(parents=True)
        for n in range(8):
            Image.new("RGB", (16, 16), (n, n, n)).save(directory / "images" / kind / f"{n}.png")


def bright(row):
    return {"bright": row["image"].getpixel((0, 0))[0]}


def use(directory):
    rows = datasets.load_dataset("imagefolder", data_dir=str(directory / "images"), split="train")
    print(rows.features["label"].names, sum(rows.map(bright, num_proc=2)["bright"]))
    stream = datasets.load_dataset(
        "imagefolder", data_dir=str(directory / "images"), split="train", streaming=True
    )
    print(sum(bright(row)["bright"] for row in stream))


if __name__ == "__main__":
    run(make, use)
