# does: grain batches of files, a flax model trained, msgpack of its state saved and read
# needs: flax grain optax numpy
import flax.linen as nn
import flax.serialization as fs
import grain
import jax
import numpy as np
import optax
from case import run


def make(directory):
    for n in range(16):
        np.save(directory / f"{n:02}.npy", np.full(8, n, "f4"))


def use(directory):
    paths = sorted(directory.glob("*.npy"))
    batches = grain.MapDataset.source(paths).map(np.load).batch(4).to_iter_dataset()
    model = nn.Dense(1)
    state = model.init(jax.random.key(0), np.zeros(8, "f4"))
    step = optax.sgd(0.001)
    kept = step.init(state)
    for batch in batches:
        slope = jax.grad(lambda s, x: (model.apply(s, x) ** 2).mean())(state, batch)
        change, kept = step.update(slope, kept)
        state = optax.apply_updates(state, change)
    (directory / "out" / "s.msgpack").write_bytes(fs.to_bytes(state))
    again = fs.from_bytes(state, (directory / "out" / "s.msgpack").read_bytes())
    print(jax.tree.map(np.shape, again))


run(make, use)
