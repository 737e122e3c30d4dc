# does: webdataset: shuffled shards, and a buffer of samples
# needs: torch webdataset
import webdataset
from files import BATCH, WORKERS, Files, train
from torch.utils.data import DataLoader


def decoded(sample):
    return files.decoded(sample["png"][:8]), 0


files = Files()
shards = Files.shards()
how = {"shardshuffle": len(shards), "seed": 4, "nodesplitter": webdataset.split_by_node}
stream = webdataset.WebDataset(shards, **how).shuffle(100).map(decoded)
train(DataLoader(stream, BATCH, num_workers=WORKERS))
