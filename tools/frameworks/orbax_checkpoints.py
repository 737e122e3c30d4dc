# does: CheckpointManager: restore from the mount, save three steps, of which two are kept
# needs: orbax-checkpoint jax numpy
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
from case import run


def save(directory, steps):
    options = ocp.CheckpointManagerOptions(max_to_keep=2)
    with ocp.CheckpointManager(directory, options=options) as manager:
        for step in range(steps):
            manager.save(step, args=ocp.args.StandardSave({"w": jnp.full(1000, step)}))
        manager.wait_until_finished()


def restore(directory):
    with ocp.CheckpointManager(directory) as manager:
        like = {"w": np.zeros(1000, int)}
        state = manager.restore(manager.latest_step(), args=ocp.args.StandardRestore(like))
        return sorted(manager.all_steps()), int(state["w"].sum())


def make(directory):
    save(directory / "ckpt", 2)


def use(directory):
    print(restore(directory / "ckpt"))
    save(directory / "out" / "ckpt", 3)
    print(restore(directory / "out" / "ckpt"))


run(make, use)
