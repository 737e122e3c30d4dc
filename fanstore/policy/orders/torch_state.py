"""The state of torch's generator on the CPU, as torch.Generator.get_state gives it."""

from __future__ import annotations

from fanstore.arrays import np
from fanstore.policy.orders.mt19937 import Mt19937

_WORDS = 624
_SIZES = (5048, 5056)  # before and since torch 1.6, which added a normal variate
_STATE = np.dtype(
    [("seed", "<u8"), ("left", "<i4"), ("seeded", "<i4"), ("next", "<u8"), ("words", "<u8", _WORDS)]
)


def generator_at(state: bytes) -> Mt19937:
    """Returns a generator that goes on as torch's would. Raises ValueError for bytes that are no
    such state. Source: torch 2.13 aten/src/ATen/CPUGeneratorImpl.cpp; compared with it in tests."""
    if len(state) not in _SIZES:
        raise ValueError(f"a generator's state has {len(state)} bytes; allowed are {_SIZES}")
    found = np.frombuffer(state, _STATE, 1)[0]
    left, place = int(found["left"]), int(found["next"])
    if not 1 <= left <= _WORDS or place > _WORDS or found["words"].max() >= 2**32:
        raise ValueError(f"a generator's state has {left} words left at {place}")
    return Mt19937.at(found["words"].astype(np.uint32), _WORDS if left == 1 else place)
