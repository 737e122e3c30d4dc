# does: webdataset: shards drawn with replacement
# needs: torch webdataset
import webdataset
from files import BATCH, WORKERS, Files, train
from torch.utils.data import DataLoader


def decoded(sample):
    return files.decoded(sample["png"][:8]), 0


files = Files()
shards = Files.shards()
how = {"resampled": True, "nodesplitter": webdataset.split_by_node}
stream = webdataset.WebDataset(shards, **how).shuffle(10).map(decoded).with_epoch(4000)
train(DataLoader(stream, BATCH, num_workers=WORKERS))
