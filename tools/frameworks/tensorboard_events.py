# does: events read with EventAccumulator, new ones written with torch's SummaryWriter
# needs: tensorboard torch
from case import run
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch.utils.tensorboard import SummaryWriter


def write(directory):
    with SummaryWriter(directory) as sink:
        for n in range(10):
            sink.add_scalar("loss", 1 / (n + 1), n)
            sink.flush()


def scalars(directory):
    events = EventAccumulator(str(directory))
    events.Reload()
    return len(events.Scalars("loss"))


def make(directory):
    write(directory / "logs")


def use(directory):
    print(scalars(directory / "logs"))
    write(directory / "out" / "logs")
    print(scalars(directory / "out" / "logs"))


run(make, use)
