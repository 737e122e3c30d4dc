# does: jnp.load and save, the compilation cache in the mount
# needs: jax numpy
import jax
import jax.numpy as jnp
from case import run


def make(directory):
    jnp.save(directory / "a.npy", jnp.arange(1000.0))


def use(directory):
    jax.config.update("jax_compilation_cache_dir", str(directory / "out" / "cache"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    x = jnp.load(directory / "a.npy")
    print(float(jax.jit(lambda v: (v * 2).sum())(x)))
    jnp.save(directory / "out" / "b.npy", x)
    print(float(jnp.load(directory / "out" / "b.npy").sum()))


run(make, use)
