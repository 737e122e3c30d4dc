# does: grain's MapDataset of a list of paths, shuffled and repeated
# needs: torch grain
import grain.python as grain
from epochs import epoch_over
from files import BATCH, EPOCHS, RANK, RANKS, Files


def content(path):
    with open(path, "rb") as file:
        return file.read(8)


paths = [path for path, _ in Files().samples]
dataset = grain.MapDataset.source(paths).shuffle(seed=7)[RANK::RANKS]
dataset = dataset.repeat(EPOCHS).map(content)
for number, _ in enumerate(dataset.to_iter_dataset().batch(BATCH), 1):
    if number % (len(dataset) // EPOCHS // BATCH) == 0:
        epoch_over()
