# does: a dataset that has no list of its files, the second job
# jobs: 2
from files import BATCH, WORKERS, Files, train
from torch.utils.data import DataLoader


class Named(Files):
    """A dataset that makes the name of each file from its index."""

    def __init__(self) -> None:
        super().__init__()
        self.by_index = dict(enumerate(self.samples))
        del self.samples

    def __len__(self) -> int:
        return len(self.by_index)

    def __getitem__(self, index: int):
        self.samples = {index: self.by_index[index]}
        return super().__getitem__(index)


train(DataLoader(Named(), BATCH, shuffle=True, num_workers=WORKERS))
