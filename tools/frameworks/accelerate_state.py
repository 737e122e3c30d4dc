# does: Accelerator: a prepared loader over files, save_state, load_state
# needs: accelerate torch
import torch
from accelerate import Accelerator
from case import run


def make(directory):
    torch.save(torch.ones(64, 10), directory / "x.pt")


def use(directory):
    job = Accelerator(cpu=True, project_dir=str(directory / "out"))
    model = torch.nn.Linear(10, 1)
    loader = torch.utils.data.DataLoader(torch.load(directory / "x.pt"), 16)
    model, optimizer, loader = job.prepare(model, torch.optim.Adam(model.parameters()), loader)
    for batch in loader:
        job.backward(model(batch).pow(2).mean())
        optimizer.step()
    job.save_state(str(directory / "out" / "state"))
    job.load_state(str(directory / "out" / "state"))
    print(sum(float(p.numel()) for p in model.parameters()))


run(make, use)
