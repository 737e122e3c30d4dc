"""Writes the reference of all public names to build/api, with pdoc: python tools/api.py."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pdoc

import fanstore

ROOT = Path(__file__).resolve().parents[1]
MODULES = ["fanstore", "fanstore.coordinate", "fanstore.order"]


def main() -> None:
    for name in fanstore.__all__:
        setattr(fanstore, name, getattr(fanstore, name))  # pdoc only sees names that were imported
    has_torch = importlib.util.find_spec("torch") is not None
    modules = [*MODULES, "fanstore.torch"] if has_torch else MODULES
    if not has_torch:
        print("api: PyTorch is not installed, so fanstore.torch is left out")
    pdoc.pdoc(*modules, "!fanstore.*._*", output_directory=ROOT / "build" / "api")
    print(f"api: {ROOT / 'build' / 'api' / 'index.html'}")


if __name__ == "__main__":
    main()
