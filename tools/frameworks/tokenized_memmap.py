# does: nanoGPT's way: text to a memmap of tokens, random windows of it in training
# needs: torch numpy
import numpy as np
import torch
from case import run


def make(directory):
    (directory / "input.txt").write_text("to be or not to be " * 500)
    text = (directory / "input.txt").read_text()
    np.array([ord(c) for c in text], "u2").tofile(directory / "train.bin")


def use(directory):
    tokens = np.memmap(directory / "train.bin", dtype="u2", mode="r")
    torch.manual_seed(0)
    for _ in range(3):
        starts = torch.randint(len(tokens) - 64, (4,))
        batch = torch.stack([torch.from_numpy(tokens[i : i + 64].astype("i8")) for i in starts])
        print(batch.shape, int(batch.sum()))
    text = (directory / "input.txt").read_text()
    new = np.memmap(directory / "out" / "val.bin", dtype="u2", mode="w+", shape=len(text))
    new[:] = [ord(c) for c in text]
    new.flush()
    print(int(np.fromfile(directory / "out" / "val.bin", "u2").sum()))


run(make, use)
