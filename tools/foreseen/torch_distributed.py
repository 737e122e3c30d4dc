# does: DistributedSampler with set_epoch, one of two replicas
from files import BATCH, WORKERS, Files, train
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler

files = Files()
sampler = DistributedSampler(files, 2, 0, seed=3)
loader = DataLoader(files, BATCH, sampler=sampler, num_workers=WORKERS)
train(loader, begin=sampler.set_epoch)
