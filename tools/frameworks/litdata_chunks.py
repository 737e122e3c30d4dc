# does: StreamingDataset over chunks of the mount, optimize writes new ones there
# needs: litdata torch
from case import run


def sample(number):
    return {"x": number, "t": "word" * 10}


def write(directory):
    import litdata

    litdata.optimize(
        sample, list(range(100)), str(directory), chunk_size=20, num_workers=1, verbose=False
    )


def make(directory):
    write(directory / "chunks")


def use(directory):
    import litdata

    rows = litdata.StreamingDataset(str(directory / "chunks"), shuffle=False)
    loader = litdata.StreamingDataLoader(rows, batch_size=10, num_workers=2)
    print(sum(int(batch["x"].sum()) for batch in loader))
    write(directory / "out" / "chunks")
    print(sum(r["x"] for r in litdata.StreamingDataset(str(directory / "out" / "chunks"))))


if __name__ == "__main__":
    run(make, use)
