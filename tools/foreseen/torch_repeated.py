# does: DistributedSampler without set_epoch, one of two replicas
from files import BATCH, WORKERS, Files, train
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler

files = Files()
sampler = DistributedSampler(files, 2, 0, seed=3)
train(DataLoader(files, BATCH, sampler=sampler, num_workers=WORKERS))
