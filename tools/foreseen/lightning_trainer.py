# does: Lightning's Trainer, with a validation loader
# needs: torch lightning
import lightning
import torch
from files import BATCH, EPOCHS, WORKERS, Files, model
from torch.utils.data import DataLoader, Subset


class Net(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.inner = model()

    def training_step(self, batch, _):
        return torch.nn.functional.cross_entropy(self.inner(batch[0]), batch[1])

    def validation_step(self, batch, _):
        self.log("loss", torch.nn.functional.cross_entropy(self.inner(batch[0]), batch[1]))

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)


files = Files()
training = DataLoader(files, BATCH, shuffle=True, num_workers=WORKERS)
validation = DataLoader(Subset(files, range(0, len(files), 10)), BATCH, num_workers=WORKERS)
trainer = lightning.Trainer(
    max_epochs=EPOCHS, accelerator="cpu", logger=False, enable_checkpointing=False,
    enable_progress_bar=False, enable_model_summary=False,
)  # fmt: skip
trainer.fit(Net(), training, validation)
