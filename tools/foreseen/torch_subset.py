# does: random_split, SubsetRandomSampler, a validation loader in turns
import torch
from files import BATCH, EPOCHS, WORKERS, Files, train
from torch.utils.data import DataLoader, SubsetRandomSampler, random_split

files = Files()
chosen, held_out = random_split(files, [0.8, 0.2], torch.Generator().manual_seed(0))
training = DataLoader(chosen, BATCH, shuffle=True, num_workers=WORKERS)
validation = DataLoader(held_out, BATCH, num_workers=WORKERS)
some = DataLoader(files, BATCH, sampler=SubsetRandomSampler(range(0, len(files), 3)))
for _ in range(EPOCHS):
    train(training, 1)
    train(validation, 1)
    train(some, 1)
