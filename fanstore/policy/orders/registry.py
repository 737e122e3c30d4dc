"""The names of access orders.

An order is that in which samples are read. tf-data-shuffle is an exception: it is the order in
which samples leave a buffer, into which they were read before in the order of the dataset.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING, Any

from fanstore.arrays import np
from fanstore.policy.orders.distributed_samplers import (
    distributed_sampler,
    repeat_aug_sampler,
    seedable_random_sampler,
)
from fanstore.policy.orders.other_frameworks import (
    dali_random_shuffle,
    grain_index_shuffle,
    keras_directory,
    numpy_default_rng,
    numpy_random_state,
    tf_data_shuffle,
)
from fanstore.policy.orders.torch_samplers import (
    random_sampler,
    random_sampler_generator,
    sequential,
    stateful_data_loader,
    subset_random_sampler,
    weighted_random_sampler,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

ORDERS: dict[str, Callable[..., Iterator[NDArray[np.uint32]]]] = {
    "accelerate-seedable": seedable_random_sampler,
    "dali-shuffle": dali_random_shuffle,
    "grain-shuffle": grain_index_shuffle,
    "keras-directory": keras_directory,
    "numpy-default-rng": numpy_default_rng,
    "numpy-random-state": numpy_random_state,
    "sequential": sequential,
    "tf-data-shuffle": tf_data_shuffle,
    "timm-repeat-aug": repeat_aug_sampler,
    "torch-distributed": distributed_sampler,
    "torch-generator": random_sampler_generator,
    "torch-random": random_sampler,
    "torch-subset-random": subset_random_sampler,
    "torch-weighted-random": weighted_random_sampler,
    "torchdata-stateful": stateful_data_loader,
}


def keywords(function: Callable[..., Any]) -> dict[str, bool]:
    """Returns the keyword parameters of a function, and whether each must be given."""
    return {
        key: each.default is each.empty
        for key, each in inspect.signature(function).parameters.items()
        if each.kind is each.KEYWORD_ONLY
    }


def check(name: str, known: dict[str, bool], parameters: Collection[str]) -> None:
    """Raises ValueError for an unknown order, a parameter that is not known, and one that is
    missing. known: the parameters, and whether each must be given."""
    if name not in ORDERS:
        raise ValueError(f"order is {name!r}; allowed are {', '.join(sorted(ORDERS))}")
    allowed = ", ".join(known) or "none"
    for key in parameters:
        if key not in known:
            raise ValueError(f"order {name} has no parameter {key!r}; allowed are {allowed}")
    for key, needed in known.items():
        if needed and key not in parameters:
            raise ValueError(f"order {name} needs the parameter {key!r}; allowed are {allowed}")


def orders(
    name: str, sample_count: int, first_epoch: int = 0, **parameters: Any
) -> Iterator[NDArray[np.uint32]]:
    """Returns an endless iterator over the orders of first_epoch and the epochs after it.

    name: one of ORDERS; parameters: the keyword parameters of its function. Raises ValueError for
    an unknown name or parameter, a parameter that is missing, and a value that is not allowed.
    """
    check(name, keywords(ORDERS[name]) if name in ORDERS else {}, parameters)
    return ORDERS[name](sample_count, first_epoch, **parameters)
