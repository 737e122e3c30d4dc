# does: DataLoader with 2 workers (fork, then spawn), torch.save and load (also with mmap)
# needs: torch numpy
import numpy as np
import torch
from case import run
from torch.utils.data import DataLoader, Dataset


class Files(Dataset):
    def __init__(self, directory):
        self.paths = sorted(directory.glob("data/*.npy"))

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, number):
        return torch.from_numpy(np.load(self.paths[number]))


def make(directory):
    (directory / "data").mkdir()
    for n in range(64):
        np.save(directory / "data" / f"{n:03}.npy", np.full(1000, n, dtype="f4"))


def use(directory):
    for way in ("fork", "spawn"):
        loader = DataLoader(Files(directory), 8, num_workers=2, multiprocessing_context=way)
        print(way, sum(float(batch.sum()) for batch in loader))
    model = torch.nn.Linear(100, 10)
    torch.nn.init.ones_(model.weight)
    torch.save(model.state_dict(), directory / "out" / "model.pt")
    for mapped in (False, True):
        state = torch.load(directory / "out" / "model.pt", mmap=mapped)
        print(mapped, float(state["weight"].sum()))


if __name__ == "__main__":
    run(make, use)
