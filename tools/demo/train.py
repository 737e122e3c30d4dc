"""A plain trainer: learns handwritten digits from a folder of class directories. Does not use
FanStore.

    train.py FOLDER [--epochs N] [--workers N]

Every epoch reads all training files in a new random order of a fixed seed; loader processes open
and decode them. A small network in NumPy learns. Prints each epoch's loss, and as the last line a
JSON summary."""

from __future__ import annotations

import argparse
import io
import json
import multiprocessing
import os
import statistics
import time
from collections.abc import Iterator

import numpy as np
from PIL import Image

BATCH_SIZE = 64
HIDDEN = 128
LEARNING_RATE = 0.1
VALIDATION_SHARE = 5  # every fifth file is for validation

Sample = tuple[str, int]


def list_samples(folder: str) -> list[Sample]:
    """Returns (path, class) of every file, in a fixed order."""
    with os.scandir(folder) as entries:
        classes = sorted((e.name, e.path) for e in entries if e.is_dir())
    samples = []
    for label, (_, path) in enumerate(classes):
        with os.scandir(path) as entries:
            samples += [(name, label) for name in sorted(e.path for e in entries if e.is_file())]
    return samples


def load_batch(batch: list[Sample]) -> tuple[np.ndarray, np.ndarray, float]:
    """Returns images in [0, 1] as rows, their labels, and the seconds spent in open, read and
    close."""
    rows, read_s = [], 0.0
    for path, _ in batch:
        start = time.perf_counter()
        with open(path, "rb", buffering=0) as file:
            data = file.read()
        read_s += time.perf_counter() - start
        rows.append(np.asarray(Image.open(io.BytesIO(data)), dtype=np.float64).ravel() / 255)
    return np.stack(rows), np.array([label for _, label in batch]), read_s


def batches(samples: list[Sample]) -> Iterator[list[Sample]]:
    for start in range(0, len(samples), BATCH_SIZE):
        yield samples[start : start + BATCH_SIZE]


class Network:
    """A network with one hidden layer and softmax, trained by plain gradient descent."""

    def __init__(self, inputs: int, classes: int, random: np.random.Generator) -> None:
        self.w1 = random.normal(0, inputs**-0.5, (inputs, HIDDEN))
        self.w2 = random.normal(0, HIDDEN**-0.5, (HIDDEN, classes))

    def forward(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns the hidden values and the class probabilities."""
        hidden = np.maximum(x @ self.w1, 0)
        scores = hidden @ self.w2
        powers = np.exp(scores - scores.max(axis=1, keepdims=True))
        return hidden, powers / powers.sum(axis=1, keepdims=True)

    def step(self, x: np.ndarray, y: np.ndarray) -> float:
        """Learns from one batch. Returns its mean loss before that."""
        hidden, p = self.forward(x)
        rows = np.arange(len(y))
        loss = float(-np.log(p[rows, y]).mean())
        p[rows, y] -= 1
        p /= len(y)
        back = (p @ self.w2.T) * (hidden > 0)
        self.w2 -= LEARNING_RATE * hidden.T @ p
        self.w1 -= LEARNING_RATE * x.T @ back
        return loss


def train(folder: str, epochs: int, workers: int) -> dict[str, object]:
    """Trains. Returns the losses of each epoch, the accuracy on the validation files, and the rates
    of loading."""
    samples = list_samples(folder)
    training = [s for i, s in enumerate(samples) if i % VALIDATION_SHARE]
    validation = samples[::VALIDATION_SHARE]
    random = np.random.default_rng(7)
    losses, rates, read_us = [], [], []
    with multiprocessing.Pool(workers) as pool:
        x, y, _ = load_batch(validation)
        network = Network(x.shape[1], int(y.max()) + 1, random)
        for epoch in range(epochs):
            order = [training[i] for i in random.permutation(len(training))]
            start = time.perf_counter()
            loaded = list(pool.imap(load_batch, batches(order)))
            elapsed = time.perf_counter() - start
            loss = float(np.mean([network.step(bx, by) for bx, by, _ in loaded]))
            losses.append(loss)
            rates.append(len(order) / elapsed)
            read_us.append(1e6 * sum(s for _, _, s in loaded) / len(order))
            print(f"epoch {epoch} loss {loss!r}", flush=True)
    accuracy = float((network.forward(x)[1].argmax(axis=1) == y).mean())
    return {
        "files": len(samples),
        "losses": [repr(loss) for loss in losses],
        "accuracy": repr(accuracy),
        "files_per_s": statistics.median(rates[1:] or rates),
        "read_us_per_file": statistics.median(read_us[1:] or read_us),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    print(json.dumps(train(arguments.folder, arguments.epochs, arguments.workers)))


if __name__ == "__main__":
    main()
