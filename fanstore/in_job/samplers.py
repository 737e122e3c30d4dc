"""Describes a sampler of torch by parameters from which the daemon can compute its indices. See
start.py."""

from __future__ import annotations

import array
import sys
import types
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from fanstore.in_job.told import SamplerTold, Shard

    # Parameters, the arrays that belong to them, and the thing whose length is the parameter
    # "samples", or None.
    Described = tuple[SamplerTold, dict[str, bytes], Any]


_PLAIN = ("numpy", "torch")  # modules of sequences that run no code of the job


def described(torch: Any, index_sampler: Any) -> Described | None:
    """Returns the parameters of a DataLoader's index sampler; None if its code is unknown. It must
    not have drawn anything yet. Runs no code of a class that is not torch's."""
    try:
        return _described(torch, index_sampler)
    except KeyError:  # an attribute that the class computes
        return None


def _described(torch: Any, index_sampler: Any) -> Described | None:
    data = torch.utils.data
    batch, drop_last, shard, sampler = 1, False, None, index_sampler
    if _iterates_as(sampler, _accelerate("BatchSamplerShard")):
        shard, sampler = _shard(vars(sampler)), vars(sampler)["batch_sampler"]
        if not _iterates_as(sampler, data.BatchSampler):
            return None
    if _iterates_as(sampler, data.BatchSampler):
        own = vars(sampler)
        batch, drop_last, sampler = int(own["batch_size"]), bool(own["drop_last"]), own["sampler"]
    found = _of_sampler(torch, sampler)
    if found is None:
        return None
    parameters, arrays, sized = found
    if shard is not None:
        batch, drop_last = int(shard.pop("batch", batch)), bool(shard.pop("drop_last"))
        parameters["shard"] = shard
    parameters["batch"], parameters["drop_last"] = batch, drop_last
    return parameters, arrays, sized


def _iterates_as(sampler: Any, kind: Any) -> bool:
    return kind is not None and getattr(type(sampler), "__iter__", None) is kind.__iter__


def _accelerate(name: str) -> Any:
    """Returns a class of accelerate, which Hugging Face's Trainer uses; None unless the job has
    loaded it."""
    return getattr(sys.modules.get("accelerate.data_loader"), name, None)


def _shard(own: dict[str, Any]) -> Shard:
    """Describes which batches a BatchSamplerShard passes to this process."""
    whole: Shard = {
        "rank": int(own["process_index"]),
        "world_size": int(own["num_processes"]),
        "even": bool(own["even_batches"]),
        "drop_last": bool(own["drop_last"]),
    }
    if own["split_batches"]:  # each process gets a part of every batch
        whole["batch"] = vars(own["batch_sampler"])["batch_size"] // own["num_processes"]
    return whole


def _of_sampler(torch: Any, sampler: Any) -> Described | None:
    data = torch.utils.data
    if _iterates_as(sampler, data.SequentialSampler):
        return {"kind": "SequentialSampler"}, {}, vars(sampler)["data_source"]
    if _iterates_as(sampler, data.distributed.DistributedSampler):
        return _distributed(vars(sampler)), {}, vars(sampler)["dataset"]
    seedable = _iterates_as(sampler, _accelerate("SeedableRandomSampler"))
    kinds = data.RandomSampler, data.SubsetRandomSampler, data.WeightedRandomSampler
    kind = next((each for each in kinds if seedable or _iterates_as(sampler, each)), None)
    if kind is None:
        return None
    own = vars(sampler)
    if seedable:
        seed = int(own["epoch"] + own["initial_seed"])
        drawn: SamplerTold | None = {"own_generator": True, "seeded": seed}
    else:
        drawn = _generator(torch, own["generator"])
    if drawn is None:
        return None
    drawn["kind"] = kind.__name__
    if kind is data.SubsetRandomSampler:
        chosen = own["indices"]
        if type(chosen) not in (list, tuple, range) and type(chosen).__module__ not in _PLAIN:
            return None
        return drawn, {"indices": array.array("q", map(int, chosen)).tobytes()}, None
    drawn["replacement"] = bool(own["replacement"])
    if kind is data.WeightedRandomSampler:
        drawn["drawn"] = int(own["num_samples"])
        return drawn, {"weights": array.array("d", own["weights"].tolist()).tobytes()}, None
    if type(sampler).num_samples is not data.RandomSampler.num_samples:
        return None
    if own["_num_samples"] is not None:
        drawn["drawn"] = int(own["_num_samples"])
    return drawn, {}, own["data_source"]


def _distributed(own: dict[str, Any]) -> SamplerTold:
    return {
        "kind": "DistributedSampler",
        "seed": int(own["seed"]) + (int(own["epoch"]) if own["shuffle"] else 0),
        "shuffle": bool(own["shuffle"]),
        "pads": not own["drop_last"],
        "rank": int(own["rank"]),
        "world_size": int(own["num_replicas"]),
        "is_last": bool(own.get("is_last_epoch")),  # fanstore.torch.Job sets it
    }


def seed_drawn(torch: Any, rows: Any, iterator: Any) -> int | None:
    """Returns the seed that a RandomSampler without a generator of its own has drawn from torch's.
    iterator: that of the index sampler; rows: the module rows.py."""
    code = torch.utils.data.RandomSampler.__iter__.__code__
    for thing in rows.reached(iterator):
        if type(thing) is types.GeneratorType and thing.gi_code is code and thing.gi_frame:
            return thing.gi_frame.f_locals.get("seed")
    return None


def _generator(torch: Any, own: Any) -> SamplerTold | None:
    """Returns the state of a sampler's generator, or of torch's default one if it has none; None if
    the generator is not on the CPU."""
    generator = torch.default_generator if own is None else own
    if generator.device.type != "cpu":
        return None
    state = bytes(generator.get_state().tolist())
    return {"own_generator": own is not None, "state": state.hex()}
