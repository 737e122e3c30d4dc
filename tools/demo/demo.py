"""Runs the main use from end to end: packs real images, then runs one plain trainer three times.

It trains on the directory of image files, then on the same files through FanStore, then on two
ranks that act as two nodes, each with half of the packs on a disk of its own. Prints the rates, and
whether losses and accuracy are the same to the last digit; exit code 1 if not."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
WORK = HERE.parent.parent / "build" / "demo"
FANSTORE = [sys.executable, "-m", "fanstore"]
TRAINER = [sys.executable, HERE / "train.py"]
RANKS = 2
# Each rank trains on its own mount and writes the trainer's output to a file.
RANK_SCRIPT = 'exec "$@" "$FANSTORE_MOUNT_PREFIX" >"$OUT/rank-$FANSTORE_RANK"'


def say(text: str) -> None:
    print(f"demo: {text}", flush=True)


def train(command: list[str | Path]) -> dict[str, Any]:
    """Runs the trainer to its end. Returns its summary."""
    result = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, text=True, env=environment()
    )
    return parse(result.stdout)


def environment() -> dict[str, str]:
    """Returns an environment with one thread for the trainer's arithmetic, so that its result does
    not depend on the number of cores."""
    return {**os.environ, "OPENBLAS_NUM_THREADS": "1"}


def parse(output: str) -> dict[str, Any]:
    """Returns the summary in a trainer's output; prints its first and last epoch."""
    *epochs, summary = output.splitlines()
    for line in (epochs[0], epochs[-1]):
        print(f"      {line}")
    parsed: dict[str, Any] = json.loads(summary)
    return parsed


def train_on_ranks(dataset: Path, local: Path) -> list[dict[str, Any]]:
    """Runs the trainer on each of several ranks of one job. Returns their summaries."""
    out = WORK / "ranks"
    out.mkdir()
    for rank in range(RANKS):
        (local / f"node-{rank}").mkdir()
    options = [
        "--dataset", dataset, "--mount", out / "mount-{rank}",
        "--local-dir", local / "node-{rank}", "--keep-staged",
    ]  # fmt: skip
    mpiexec = shutil.which("mpiexec", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    subprocess.run(
        [mpiexec or "mpiexec", "-n", str(RANKS), *FANSTORE, "run", *options, "--",
         "sh", "-c", RANK_SCRIPT, "trainer", *TRAINER],
        check=True, env={**environment(), "OUT": os.fspath(out)},
    )  # fmt: skip
    return [parse((out / f"rank-{rank}").read_text()) for rank in range(RANKS)]


def show_packs(folder: Path) -> None:
    for pack in sorted(folder.rglob("*.fsp")):
        print(f"      {pack}  {pack.stat().st_size:,} bytes")


def compare(plain: dict[str, Any], ours: dict[str, Any]) -> bool:
    """Prints the two runs side by side. Returns whether they learned the same."""
    ratio = ours["files_per_s"] / plain["files_per_s"]
    read_ratio = plain["read_us_per_file"] / ours["read_us_per_file"]
    print()
    print(f"{'':28}{'directory':>14}{'FanStore':>14}{'times as fast':>15}")
    for title, key, form, value in (
        ("files/s, loader", "files_per_s", ",.0f", ratio),
        ("us/file, open+read+close", "read_us_per_file", ".2f", read_ratio),
    ):
        print(f"{title:28}{plain[key]:>14{form}}{ours[key]:>14{form}}{value:>15.2f}")
    for title, same in (
        ("losses", plain["losses"] == ours["losses"]),
        ("accuracy", plain["accuracy"] == ours["accuracy"]),
    ):
        print(f"{title:28}{'identical' if same else 'DIFFERENT'}")
    print(f"{'':28}{len(plain['losses'])} epochs, accuracy {float(plain['accuracy']):.4f}")
    return learned_the_same(plain, ours)


def learned_the_same(plain: dict[str, Any], ours: dict[str, Any]) -> bool:
    """Returns whether two runs have the same files, losses and accuracy, to the last digit."""
    return all(plain[key] == ours[key] for key in ("files", "losses", "accuracy"))


def main() -> int:
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    # The preload library may be copied to the local directory, which needs a path without a space.
    usual = tempfile.gettempdir()
    place = "/tmp" if " " in usual or ":" in usual else usual
    with tempfile.TemporaryDirectory(prefix="fanstore-demo-", dir=place) as local:
        return show(Path(local))


def show(local: Path) -> int:
    start = time.monotonic()
    images, dataset = WORK / "images", WORK / "digits"
    say(f"writing scikit-learn's handwritten digits as image files to {images}")
    subprocess.run([sys.executable, HERE / "make_images.py", images], check=True)
    say("fanstore prepare")
    subprocess.run([*FANSTORE, "prepare", "--partitions", str(RANKS), images, dataset], check=True)
    say("training from the directory")
    plain = train([*TRAINER, images])
    say("training through `fanstore run`, the same script")
    mount = WORK / "mount"
    options = ["--dataset", dataset, "--mount", mount, "--local-dir", local, "--keep-staged"]
    ours = train([*FANSTORE, "run", *options, "--", *TRAINER, mount])
    say(f"training on {RANKS} ranks of one job, half of the packs on each")
    ranks = train_on_ranks(dataset, local)
    same = compare(plain, ours) and all([learned_the_same(plain, rank) for rank in ranks])
    print(f"{'on two ranks':28}{'identical' if same else 'DIFFERENT'}")
    print(f"{'packs':28}")
    show_packs(dataset)
    show_packs(local)
    say(f"{time.monotonic() - start:.0f} s in all")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
