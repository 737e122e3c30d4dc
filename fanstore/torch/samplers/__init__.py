"""Samplers for torch's DataLoader that prefer, within an epoch, samples that the node already has
(docs/samplers.md)."""

from fanstore.torch.samplers.locality import LocalitySampler
from fanstore.torch.samplers.opportunistic import OpportunisticSampler

__all__ = ["LocalitySampler", "OpportunisticSampler"]
