"""The main job end to end: real images, packed, then one plain trainer run twice.

First on the directory of image files, then on the same files through FanStore. Prints the rates
of both and whether losses and accuracy are the same to the last digit; exit code 1 when not.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
WORK = HERE.parent.parent / "build" / "demo"
FANSTORE = [sys.executable, "-m", "fanstore"]
TRAINER = [sys.executable, HERE / "train.py"]


def say(text: str) -> None:
    print(f"demo: {text}", flush=True)


def train(command: list[str | Path]) -> dict[str, Any]:
    """Runs the trainer to its end; its summary."""
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    result = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
    *epochs, summary = result.stdout.splitlines()
    for line in (epochs[0], epochs[-1]):
        print(f"      {line}")
    parsed: dict[str, Any] = json.loads(summary)
    return parsed


def show_packs(folder: Path) -> None:
    for pack in sorted(folder.rglob("*.fsp")):
        print(f"      {pack}  {pack.stat().st_size:,} bytes")


def compare(plain: dict[str, Any], ours: dict[str, Any]) -> bool:
    """Prints the two runs side by side; True when they learned the same."""
    ratio = ours["files_per_s"] / plain["files_per_s"]
    read_ratio = plain["read_us_per_file"] / ours["read_us_per_file"]
    print()
    print(f"{'':28}{'directory':>14}{'FanStore':>14}{'ratio':>8}")
    for title, key, form, value in (
        ("files/s, loader", "files_per_s", ",.0f", ratio),
        ("us/file, open+read+close", "read_us_per_file", ".2f", read_ratio),
    ):
        print(f"{title:28}{plain[key]:>14{form}}{ours[key]:>14{form}}{value:>8.2f}")
    for title, same in (
        ("losses", plain["losses"] == ours["losses"]),
        ("accuracy", plain["accuracy"] == ours["accuracy"]),
    ):
        print(f"{title:28}{'identical' if same else 'DIFFERENT'}")
    print(f"{'':28}{len(plain['losses'])} epochs, accuracy {float(plain['accuracy']):.4f}")
    return all(plain[key] == ours[key] for key in ("files", "losses", "accuracy"))


def main() -> int:
    start = time.monotonic()
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    images, dataset, local = WORK / "images", WORK / "digits", WORK / "local"
    local.mkdir()
    say(f"writing scikit-learn's handwritten digits as image files to {images}")
    subprocess.run([sys.executable, HERE / "make_images.py", images], check=True)
    say("fanstore prepare")
    subprocess.run([*FANSTORE, "prepare", images, dataset], check=True)
    say("training from the directory")
    plain = train([*TRAINER, images])
    say("training through `fanstore run`, the same script")
    mount = WORK / "mount"
    options = ["--dataset", dataset, "--mount", mount, "--local-dir", local, "--keep-staged"]
    ours = train([*FANSTORE, "run", *options, "--", *TRAINER, mount])
    same = compare(plain, ours)
    print(f"{'packs':28}")
    show_packs(dataset)
    show_packs(local)
    say(f"{time.monotonic() - start:.0f} s in all")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
