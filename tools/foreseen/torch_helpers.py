# does: a training and a validation loader, each read by a thread of its own at the same time
import queue
import threading

import torch
from epochs import epoch_over
from files import BATCH, EPOCHS, WORKERS, Files
from torch.utils.data import DataLoader, random_split


def ahead(loader):
    """Yields batches that a thread takes from the loader, as prefetchers to a GPU do."""
    ready = queue.Queue(2)

    def fill() -> None:
        for batch in loader:
            ready.put(batch)
        ready.put(None)

    threading.Thread(target=fill).start()
    yield from iter(ready.get, None)


def read(loader) -> None:
    for _ in ahead(loader):
        pass


files = Files()
chosen, held = random_split(files, [0.8, 0.2], torch.Generator().manual_seed(0))
loaders = [
    DataLoader(chosen, BATCH, shuffle=True, num_workers=WORKERS),
    DataLoader(held, BATCH, shuffle=True),
]
for _ in range(EPOCHS):
    readers = [threading.Thread(target=read, args=[loader]) for loader in loaders]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    epoch_over()
