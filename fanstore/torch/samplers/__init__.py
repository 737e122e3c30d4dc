"""Samplers for torch's DataLoader that change the order of an epoch in favour of samples that are
near (docs/samplers.md)."""

from fanstore.torch.samplers.locality import LocalitySampler
from fanstore.torch.samplers.opportunistic import OpportunisticSampler

__all__ = ["LocalitySampler", "OpportunisticSampler"]
