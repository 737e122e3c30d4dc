# does: MosaicML streaming: shuffled samples of MDS shards
# needs: torch streaming
from files import BATCH, ROOT, WORKERS, Files, train
from streaming import StreamingDataset
from torch.utils.data import DataLoader


class Stream(StreamingDataset):
    def __getitem__(self, at):
        sample = super().__getitem__(at)
        return Files.decoded(sample["image"][:8]), sample["kind"]


stream = Stream(local=ROOT + "/mds", shuffle=True, batch_size=BATCH)
train(DataLoader(stream, BATCH, num_workers=WORKERS))
