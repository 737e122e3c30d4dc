# does: litdata: chunks in another order each epoch, and shuffled samples within them
# needs: torch litdata
from files import BATCH, ROOT, WORKERS, Files, train
from litdata import StreamingDataset
from torch.utils.data import DataLoader


class Stream(StreamingDataset):
    def __getitem__(self, at):
        sample = super().__getitem__(at)
        return Files.decoded(sample["image"][:8]), sample["kind"]


if __name__ == "__main__":
    train(DataLoader(Stream(ROOT + "/litdata", shuffle=True), BATCH, num_workers=WORKERS))
