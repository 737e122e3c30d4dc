"""Describes a sampler of torch by parameters from which the daemon can compute its indices. See
start.py."""

from __future__ import annotations

import array
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from fanstore.in_job.told import SamplerTold, Shard

    Described = tuple[SamplerTold, dict[str, bytes]]


def described(torch: Any, index_sampler: Any) -> Described | None:
    """Returns the parameters of a DataLoader's index sampler, and the arrays that belong to them;
    None if the sampler's code is unknown. The sampler must not have drawn anything yet."""
    data = torch.utils.data
    batch, drop_last, shard, sampler = 1, False, None, index_sampler
    if _iterates_as(sampler, _accelerate("BatchSamplerShard")):
        shard, sampler = _shard(sampler), sampler.batch_sampler
        if not _iterates_as(sampler, data.BatchSampler):
            return None
    if _iterates_as(sampler, data.BatchSampler):
        batch, drop_last = int(sampler.batch_size), bool(sampler.drop_last)
        sampler = sampler.sampler
    found = _of_sampler(torch, sampler)
    if found is None:
        return None
    parameters, arrays = found
    if shard is not None:
        batch, drop_last = int(shard.pop("batch", batch)), bool(shard.pop("drop_last"))
        parameters["shard"] = shard
    parameters["batch"], parameters["drop_last"] = batch, drop_last
    return parameters, arrays


def _iterates_as(sampler: Any, kind: Any) -> bool:
    return kind is not None and getattr(type(sampler), "__iter__", None) is kind.__iter__


def _accelerate(name: str) -> Any:
    """Returns a class of accelerate, which Hugging Face's Trainer uses; None unless the job has
    loaded it."""
    return getattr(sys.modules.get("accelerate.data_loader"), name, None)


def _shard(sampler: Any) -> Shard:
    """Describes which batches a BatchSamplerShard passes to this process."""
    whole: Shard = {
        "rank": int(sampler.process_index),
        "world_size": int(sampler.num_processes),
        "even": bool(sampler.even_batches),
        "drop_last": bool(sampler.drop_last),
    }
    if sampler.split_batches:  # each process gets a part of every batch
        whole["batch"] = sampler.batch_sampler.batch_size // sampler.num_processes
    return whole


def _of_sampler(torch: Any, sampler: Any) -> Described | None:
    data = torch.utils.data
    if _iterates_as(sampler, data.SequentialSampler):
        return {"kind": "SequentialSampler", "samples": len(sampler.data_source)}, {}
    if _iterates_as(sampler, data.distributed.DistributedSampler):
        return _distributed(sampler), {}
    seedable = _iterates_as(sampler, _accelerate("SeedableRandomSampler"))
    if seedable:
        seed = int(sampler.epoch + sampler.initial_seed)
        drawn: SamplerTold | None = {"own_generator": True, "seeded": seed}
    else:
        drawn = _generator(torch, getattr(sampler, "generator", None))
    if drawn is None:
        return None
    if seedable or _iterates_as(sampler, data.RandomSampler):
        drawn["kind"], drawn["samples"] = "RandomSampler", len(sampler.data_source)
        # The property num_samples of torch calls len(data_source) again.
        is_torchs = type(sampler).num_samples is data.RandomSampler.num_samples
        chosen_count = sampler._num_samples if is_torchs else sampler.num_samples
        drawn["drawn"] = drawn["samples"] if chosen_count is None else int(chosen_count)
        drawn["replacement"] = bool(sampler.replacement)
        return drawn, {}
    if _iterates_as(sampler, data.SubsetRandomSampler):
        chosen = array.array("q", map(int, sampler.indices))
        drawn["kind"] = "SubsetRandomSampler"
        return drawn, {"indices": chosen.tobytes()}
    if _iterates_as(sampler, data.WeightedRandomSampler):
        weights = array.array("d", sampler.weights.tolist())
        drawn["kind"], drawn["drawn"] = "WeightedRandomSampler", int(sampler.num_samples)
        drawn["replacement"] = bool(sampler.replacement)
        return drawn, {"weights": weights.tobytes()}
    return None


def _distributed(sampler: Any) -> SamplerTold:
    return {
        "kind": "DistributedSampler",
        "samples": len(sampler.dataset),
        "seed": int(sampler.seed) + (int(sampler.epoch) if sampler.shuffle else 0),
        "shuffle": bool(sampler.shuffle),
        "pads": not sampler.drop_last,
        "rank": int(sampler.rank),
        "world_size": int(sampler.num_replicas),
        "is_last": bool(getattr(sampler, "is_last_epoch", False)),  # fanstore.torch.Job sets it
    }


def _generator(torch: Any, own: Any) -> SamplerTold | None:
    """Returns the state of a sampler's generator, or of torch's default one if it has none; None if
    the generator is not on the CPU."""
    generator = torch.default_generator if own is None else own
    if generator.device.type != "cpu":
        return None
    state = bytes(generator.get_state().tolist())
    return {"own_generator": own is not None, "state": state.hex()}
