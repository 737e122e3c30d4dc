# does: Hugging Face's Trainer, with an evaluation after each epoch
# needs: torch transformers accelerate
import tempfile

import torch
from files import BATCH, EPOCHS, WORKERS, Files, model
from transformers import Trainer, TrainingArguments


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = model()

    def forward(self, pixels, labels):
        logits = self.inner(pixels)
        return {"loss": torch.nn.functional.cross_entropy(logits, labels), "logits": logits}


files = Files(("pixels", "labels"))
held_out = torch.utils.data.Subset(files, range(0, len(files), 10))
arguments = TrainingArguments(
    tempfile.mkdtemp(), num_train_epochs=EPOCHS, per_device_train_batch_size=BATCH, use_cpu=True,
    per_device_eval_batch_size=BATCH, dataloader_num_workers=WORKERS, eval_strategy="epoch",
    save_strategy="no", report_to=[], disable_tqdm=True, remove_unused_columns=False,
)  # fmt: skip
Trainer(Net(), arguments, train_dataset=files, eval_dataset=held_out).train()
