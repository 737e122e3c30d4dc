"""Lightning's Trainer on a packed dataset, with FanStore's FileDataset and DataLoader
(docs/loaders.md).

    python examples/train_lightning.py

makes a small dataset and trains a classifier on it for two epochs. Needs torch and Lightning; takes
less than a minute.
"""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
from pathlib import Path

import lightning
import torch

from fanstore.torch import DataLoader, FileDataset

RECORD, RECORDS, BATCH, EPOCHS = 64, 1024, 32, 2


def make_records(folder: Path) -> None:
    """Makes records whose bytes are small or large: the two classes."""
    numbers = random.Random(1)
    folder.mkdir()
    for number in range(RECORDS):
        top = 256 if number % 2 else 160
        record = bytes(numbers.randrange(top - 160, top) for _ in range(RECORD))
        (folder / f"{number:04}").write_bytes(record)


class Classifier(lightning.LightningModule):
    """Tells large records from small ones."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(RECORD, 2)

    def _outcome(self, records: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        values = records.float() / 255
        return self.layer(values - 0.5), (values.mean(1) > 0.5).long()

    def training_step(self, records: torch.Tensor) -> torch.Tensor:
        found, wanted = self._outcome(records)
        return torch.nn.functional.cross_entropy(found, wanted)

    def validation_step(self, records: torch.Tensor) -> None:
        found, wanted = self._outcome(records)
        self.log("right", (found.argmax(1) == wanted).float().mean())

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=0.05)


def main() -> None:
    lightning.seed_everything(1, verbose=False)
    with tempfile.TemporaryDirectory() as work:
        source, dataset = Path(work, "records"), Path(work, "data.fan")
        make_records(source)
        prepare = [sys.executable, "-m", "fanstore", "prepare", "--quiet"]
        subprocess.run([*prepare, source, dataset], check=True)
        records = FileDataset(dataset)
        train, check = torch.utils.data.random_split(records, [0.75, 0.25])
        trainer = lightning.Trainer(
            max_epochs=EPOCHS, accelerator="cpu", logger=False, enable_checkpointing=False,
            enable_progress_bar=False, enable_model_summary=False,
        )  # fmt: skip
        trainer.fit(
            Classifier(),
            DataLoader(train, BATCH, shuffle=True, num_workers=2),
            DataLoader(check, BATCH, num_workers=1),
        )
        print(f"{trainer.callback_metrics['right']:.1%} of the records are told apart")


if __name__ == "__main__":
    main()
