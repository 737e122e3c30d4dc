# does: grain's DataLoader with a list of files, its index sampler and worker processes
# needs: torch grain
import grain.python as grain
from epochs import epoch_over
from files import BATCH, EPOCHS, RANK, RANKS, WORKERS, Files


class Source(Files):
    def __getitem__(self, index):
        return super().__getitem__(int(index))[1]


if __name__ == "__main__":
    files = Source()
    sampler = grain.IndexSampler(len(files), grain.ShardOptions(RANK, RANKS), True, EPOCHS, seed=3)
    operations = [grain.Batch(BATCH)]
    loader = grain.DataLoader(
        data_source=files, sampler=sampler, operations=operations, worker_count=WORKERS
    )
    for number, _ in enumerate(loader, 1):
        if number % (len(files) // RANKS // BATCH) == 0:
            epoch_over()
