# does: accelerate, prepare() with a seedable sampler
# needs: torch accelerate
import torch
from accelerate import Accelerator
from accelerate.utils import DataLoaderConfiguration
from files import BATCH, EPOCHS, WORKERS, Files, model
from torch.utils.data import DataLoader

configuration = DataLoaderConfiguration(use_seedable_sampler=True)
accelerator = Accelerator(cpu=True, dataloader_config=configuration)
net = model()
loader = DataLoader(Files(), BATCH, shuffle=True, num_workers=WORKERS)
net, optimizer, loader = accelerator.prepare(net, torch.optim.SGD(net.parameters(), 0.1), loader)
for epoch in range(EPOCHS):
    loader.set_epoch(epoch)
    for pixels, numbers in loader:
        optimizer.zero_grad()
        accelerator.backward(torch.nn.functional.cross_entropy(net(pixels), numbers))
        optimizer.step()
