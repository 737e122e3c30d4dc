"""A hyper-parameter search of four jobs that prepare each batch once (docs/coordinate.md).

    python examples/search.py

makes a small dataset, starts a node daemon, and runs this file four times under `fanstore exec`,
with four learning rates. Needs torch; takes less than a minute.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

RATES = ("0.003", "0.03", "0.3", "3.0")
FANSTORE = (sys.executable, "-m", "fanstore")


def train(rate: float) -> None:
    """Trains one model; the batches come from all jobs."""
    import torch

    from fanstore.torch import CoordinatedDataLoader

    class Points(torch.utils.data.Dataset):  # type: ignore[type-arg]
        """Files of two numbers; the label is whether their sum is positive."""

        def __init__(self, root: str) -> None:
            self.files = sorted(Path(root).glob("*.txt"))

        def __len__(self) -> int:
            return len(self.files)

        def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
            point = torch.tensor([float(word) for word in self.files[index].read_text().split()])
            return point, (point.sum() > 0).float()

    torch.manual_seed(0)
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    points = Points(os.environ["FANSTORE_MOUNT_PREFIX"])
    with CoordinatedDataLoader(points, 32, jobs=len(RATES), seed=1) as loader:
        for _ in range(3):
            for inputs, labels in loader:
                loss = torch.nn.functional.binary_cross_entropy_with_logits(
                    model(inputs)[:, 0], labels
                )
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    print(f"rate {rate}: loss {loss.item():.4f}", flush=True)


def search(work: Path) -> int:
    """Packs, starts, runs the jobs together, and stops; returns the highest exit code."""
    draw = random.Random(1)
    source = work / "points"
    source.mkdir()
    for number in range(640):
        (source / f"{number:04}.txt").write_text(f"{draw.gauss(0, 1)} {draw.gauss(0, 1)}")
    local = {**os.environ, "FANSTORE_LOCAL_DIR": str(work)}
    subprocess.run([*FANSTORE, "prepare", "--quiet", source, work / "points.fan"], check=True)
    mount = ["--dataset", work / "points.fan", "--mount", work / "mount", "--quiet"]
    subprocess.run([*FANSTORE, "start", *mount], check=True, env=local, stdout=subprocess.DEVNULL)
    try:
        job = [*FANSTORE, "exec", "--", sys.executable, __file__]
        jobs = [subprocess.Popen([*job, rate], env=local) for rate in RATES]
        return max(job.wait() for job in jobs)
    finally:
        subprocess.run([*FANSTORE, "stop"], check=True, env=local, stdout=subprocess.DEVNULL)


def main() -> None:
    """Searches, or trains with the rate that is given."""
    if len(sys.argv) > 1:
        train(float(sys.argv[1]))
        return
    with tempfile.TemporaryDirectory() as work:
        sys.exit(search(Path(work)))


if __name__ == "__main__":
    main()
