# does: Trainer with ModelCheckpoint and CSVLogger, resumed from its checkpoint
# needs: lightning torch
import logging
import warnings

import lightning as L
import torch
from case import run

warnings.simplefilter("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


class Small(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(10, 1)

    def training_step(self, batch, _):
        loss = self.layer(batch).pow(2).mean()
        self.log("loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)


def make(directory):
    torch.save(torch.ones(64, 10), directory / "x.pt")


def trainer(directory, epochs):
    saving = L.pytorch.callbacks.ModelCheckpoint(directory / "out" / "ckpt", save_last=True)
    return L.Trainer(
        max_epochs=epochs,
        accelerator="cpu",
        callbacks=[saving],
        log_every_n_steps=1,
        logger=L.pytorch.loggers.CSVLogger(directory / "out" / "logs"),
        enable_progress_bar=False,
        enable_model_summary=False,
    )


def use(directory):
    loader = torch.utils.data.DataLoader(torch.load(directory / "x.pt"), 16)
    trainer(directory, 1).fit(Small(), loader)
    again = trainer(directory, 2)
    again.fit(Small(), loader, ckpt_path=directory / "out" / "ckpt" / "last.ckpt")
    print(again.current_epoch, again.global_step)


run(make, use)
