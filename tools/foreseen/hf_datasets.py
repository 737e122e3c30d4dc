# does: a datasets.Dataset with images, which a DataLoader reads in batches, the second job
# needs: torch datasets pillow
# jobs: 2
import torch
from datasets import Dataset, Image
from files import BATCH, WORKERS, Files, train
from torch.utils.data import DataLoader


def collate(samples):
    """The sizes of images stand for their pixels."""
    sizes = [each["image"].size for each in samples]
    return torch.tensor(sizes, dtype=torch.float32).repeat(1, 4), torch.zeros(len(samples)).long()


paths = [path for path, _ in Files().samples]
images = Dataset.from_dict({"image": paths}).cast_column("image", Image())
train(DataLoader(images, BATCH, shuffle=True, num_workers=WORKERS, collate_fn=collate))
