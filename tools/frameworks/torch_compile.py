# does: torch.compile with its cache in the mount (C++ compiled and loaded there), torch.export
# needs: torch
import os
import sys

os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.path.join(sys.argv[2], "out", "cache")
os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
import torch
from case import run


def make(directory):
    torch.save(torch.arange(1000.0), directory / "x.pt")


def use(directory):
    x = torch.load(directory / "x.pt")
    print(float(torch.compile(lambda v: (v.sin() * 2).sum())(x)))
    torch.export.save(torch.export.export(torch.nn.ReLU(), (x,)), directory / "out" / "m.pt2")
    print(float(torch.export.load(directory / "out" / "m.pt2").module()(x).sum()))


run(make, use)
