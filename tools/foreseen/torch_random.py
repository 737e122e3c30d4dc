# does: RandomSampler (shuffle=True)
from files import BATCH, WORKERS, Files, train
from torch.utils.data import DataLoader

train(DataLoader(Files(), BATCH, shuffle=True, num_workers=WORKERS))
