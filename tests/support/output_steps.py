"""A command that does, step by step, what a test tells it to do with outputs."""

from __future__ import annotations

import hashlib
import json
import random
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from serving import wait_for

LIMIT_S = 40.0

# Each step is an expression by rank; its value, or ["errno", its number], is the answer.
_COMMAND = """
import hashlib, json, os, random, signal, sys, time
here, root = sys.argv[1], os.environ["FANSTORE_MOUNT_PREFIX"]
rank = os.environ.get("FANSTORE_RANK", "0")
opened = {}

def content(name, size):
    return random.Random(name).randbytes(size)

def begin(name, size):
    os.makedirs(os.path.dirname(os.path.join(root, name)), exist_ok=True)
    opened[name] = os.open(os.path.join(root, name), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    go_on(name, content(name, size))

def go_on(name, data):
    while data:
        data = data[os.write(opened[name], data):]

def finish(name):
    os.close(opened.pop(name))

def write(name, size):
    begin(name, size)
    finish(name)

def read(name):
    with open(os.path.join(root, name), "rb") as stream:
        return hashlib.sha256(stream.read()).hexdigest()

def names(directory=""):
    return sorted(os.listdir(os.path.join(root, directory)))

def remove(name):
    os.unlink(os.path.join(root, name))

def value(text):
    begun = time.monotonic()
    try:
        return {"answer": eval(text), "took_s": time.monotonic() - begun}
    except OSError as error:
        return {"answer": ["errno", error.errno], "took_s": time.monotonic() - begun}

def leave(name, said):
    with open(f"{here}/{name}.part", "w") as stream:
        json.dump(said, stream)
    os.rename(f"{here}/{name}.part", f"{here}/{name}")

for step in sys.argv[2:]:
    while not os.path.exists(f"{here}/{step}"):
        time.sleep(0.005)
    with open(f"{here}/{step}") as stream:
        texts = json.load(stream)
    leave(f"{step}-{rank}", value(texts.get(rank, "None")))
"""


def content(name: str, size: int) -> bytes:
    """What write(name, size) writes."""
    return random.Random(name).randbytes(size)


def digest(name: str, size: int) -> str:
    """What read(name) answers for it."""
    return hashlib.sha256(content(name, size)).hexdigest()


def until_done(text: str) -> str:
    """What does `text`, which gives None, as soon as that fails no more."""
    tries = f"value({text!r})['answer'] is None or time.sleep(0.02)"
    return f"None if any({tries} for _ in range(500)) else 'never'"


class Steps:
    """The steps of one run, told from outside, in a new directory."""

    def __init__(self, here: Path, *steps: str) -> None:
        self._here = here
        self._steps = steps
        here.mkdir()

    @property
    def command(self) -> list[str]:
        """What `fanstore run` is to run."""
        return [sys.executable, "-c", _COMMAND, str(self._here), *self._steps]

    def tell(self, step: str, texts: str | Mapping[int, str]) -> None:
        """Starts a step: by rank what to do, or what all do."""
        ranks = dict.fromkeys(range(64), texts) if isinstance(texts, str) else texts
        part = self._here / f"{step}.part"
        part.write_text(json.dumps({str(rank): text for rank, text in ranks.items()}))
        part.rename(self._here / step)

    def said(self, step: str, rank: int = 0) -> bool:
        """Whether a rank has done a step."""
        return (self._here / f"{step}-{rank}").exists()

    def answer(self, step: str, rank: int = 0, alive: Callable[[], bool] = lambda: True) -> Any:
        """What it has come to."""
        what = f"step {step} of rank {rank}"
        wait_for(lambda: self.said(step, rank) or not alive(), what, LIMIT_S)
        return json.loads((self._here / f"{step}-{rank}").read_text())["answer"]

    def took_s(self, step: str, rank: int = 0) -> float:
        """How long it took."""
        return float(json.loads((self._here / f"{step}-{rank}").read_text())["took_s"])

    def do(self, step: str, text: str, rank: int = 0) -> Any:
        """One rank does something, the others nothing."""
        self.tell(step, {rank: text})
        return self.answer(step, rank)
