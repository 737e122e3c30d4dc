# does: timm's RepeatAugSampler
# needs: torch timm
from files import BATCH, WORKERS, Files, train
from timm.data.distributed_sampler import RepeatAugSampler
from torch.utils.data import DataLoader

files = Files()
sampler = RepeatAugSampler(files, num_replicas=1, rank=0)
loader = DataLoader(files, BATCH, sampler=sampler, num_workers=WORKERS)
train(loader, begin=sampler.set_epoch)
