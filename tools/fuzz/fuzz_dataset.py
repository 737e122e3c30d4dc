"""Damages a dataset in many ways, and reads it with the functions of `fanstore verify` and
`extract`.

    fuzz_dataset.py [--rounds N] [--seed S]

Each round changes some bytes of the index or a pack, half of the time with corrected checksums, as
a hostile author would. Only FanStore's own exceptions are allowed. Findings are kept in
build/fuzz-dataset/ and printed with their round."""

from __future__ import annotations

import argparse
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import xxhash

from fanstore.dataset import open_dataset
from fanstore.errors import FanstoreError
from fanstore.extract import extract
from fanstore.verify import verify

ROOT = Path(__file__).resolve().parent.parent.parent
KEPT = ROOT / "build" / "fuzz-dataset"
HEADER_BYTES = 512
TRAILER_BYTES = 64
ODD = [0, 1, 2, 63, 4096, 0xFFFF, 1 << 31, (1 << 32) - 1, 1 << 40, (1 << 63) - 1, (1 << 64) - 1]


def make_source(top: Path) -> None:
    """Makes files of several sizes, directories and links."""
    for folder in ("a", "b/c", "empty"):
        (top / folder).mkdir(parents=True)
    for number in range(12):
        data = bytes(i * i >> 4 & 0xFF for i in range(number * 700))
        (top / ("a" if number % 2 else "b/c") / f"file-{number}").write_bytes(data)
    (top / "a" / "large").write_bytes(b"some text that repeats " * 9000)
    (top / "b" / "link").symlink_to("../a/large")
    (top / "b" / "again").hardlink_to(top / "a" / "large")


def make_datasets(work: Path) -> list[Path]:
    """Makes and returns one dataset for each kind of codec."""
    make_source(work / "source")
    made = []
    for codec in ("store", "lz4", "zstd"):
        made.append(work / codec)
        options = ["--codec", codec, "--partitions", "2", "--block-size", "65536"]
        command = [sys.executable, "-m", "fanstore", "prepare", work / "source", made[-1]]
        subprocess.run([*command, *options], check=True, capture_output=True)
    return made


def put_checksum(data: bytearray, at: int, part: slice) -> None:
    data[at : at + 8] = xxhash.xxh3_64_intdigest(bytes(data[part])).to_bytes(8, "little")


def reseal(name: str, data: bytearray) -> None:
    """Corrects the checksums of a file, if its header and trailer are still complete."""
    if name.endswith(".fsi"):
        if len(data) >= HEADER_BYTES:
            put_checksum(data, HEADER_BYTES - 16, slice(HEADER_BYTES, None))
            put_checksum(data, HEADER_BYTES - 8, slice(0, HEADER_BYTES - 8))
        return
    if len(data) > TRAILER_BYTES + 4096:
        put_checksum(data, 56, slice(0, 56))
        put_checksum(data, len(data) - 8, slice(len(data) - TRAILER_BYTES, len(data) - 8))


def mutate(source: random.Random, data: bytearray) -> None:
    """Changes a few bytes, mostly where the headers are, or cuts the file."""
    for _ in range(source.randint(1, 4)):
        spans = [(0, 512), (max(0, len(data) - 512), len(data)), (0, len(data))]
        low, high = source.choice(spans)
        at = source.randrange(low, max(low + 1, min(high, len(data))))
        if source.random() < 0.5:
            data[at] ^= 1 << source.randrange(8)
        else:
            at &= ~7
            data[at : at + 8] = source.choice(ODD).to_bytes(8, "little")
    if source.random() < 0.05:
        del data[source.randrange(1, len(data)) :]


def read_all(directory: Path, out: Path) -> None:
    """Opens, lists, verifies and unpacks a dataset."""
    with open_dataset(directory) as dataset:
        for record in range(min(len(dataset.records), 64)):
            dataset.relpath(record)
        verify(dataset)
        extract(dataset, out, range(len(dataset.records)))


def allowed(call: Callable[[], None]) -> BaseException | None:
    """Calls a function. Returns the exception that it raised, if that is not allowed; else None."""
    try:
        call()
    except FanstoreError:
        return None
    except Exception as error:
        return error
    return None


def fuzz(work: Path, rounds: int, seed: int) -> int:
    """Runs the rounds. Returns the number of findings."""
    source = random.Random(seed)
    datasets = make_datasets(work)
    for dataset in datasets:
        read_all(dataset, work / "out")
        shutil.rmtree(work / "out")
    findings = 0
    for number in range(rounds):
        target = source.choice(sorted(source.choice(datasets).glob("*.fs?")))
        sound = target.read_bytes()
        data = bytearray(sound)
        mutate(source, data)
        if source.random() < 0.5:
            reseal(target.name, data)
        target.write_bytes(data)
        error = allowed(lambda path=target.parent: read_all(path, work / "out"))
        if error is not None:
            findings += 1
            kept = KEPT / f"round-{number}"
            shutil.copytree(target.parent, kept, dirs_exist_ok=True)
            print(f"fuzz_dataset: round {number}: {error!r}; see {kept}", file=sys.stderr)
        target.write_bytes(sound)
        shutil.rmtree(work / "out", ignore_errors=True)
    return findings


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fanstore-fuzz-") as work:
        findings = fuzz(Path(work), arguments.rounds, arguments.seed)
    print(f"fuzz_dataset: {arguments.rounds} rounds, {findings or 'no'} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
