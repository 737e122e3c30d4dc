# does: save_file and load_file (Rust, system calls of its own), safe_open
# needs: safetensors numpy
import numpy as np
from case import run
from safetensors import safe_open
from safetensors.numpy import load_file, save_file


def make(directory):
    save_file({"a": np.arange(1000.0)}, directory / "a.safetensors")


def use(directory):
    print(load_file(directory / "a.safetensors")["a"].sum())
    for turn in range(2):
        save_file({"b": np.arange(1000.0) + turn}, directory / "out" / "b.safetensors")
    with safe_open(str(directory / "out" / "b.safetensors"), "np") as file:
        print(file.get_tensor("b").sum())


run(make, use)
