# does: WeightedRandomSampler
from files import BATCH, WORKERS, Files, train
from torch.utils.data import DataLoader, WeightedRandomSampler

files = Files()
weights = [1 + number % 3 for _, number in files.samples]
sampler = WeightedRandomSampler(weights, len(files))
train(DataLoader(files, BATCH, sampler=sampler, num_workers=WORKERS))
