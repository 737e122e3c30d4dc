"""Loaders and samplers for PyTorch (docs/coordinate.md, docs/samplers.md). Needs torch, which
nothing else of FanStore needs."""

try:
    import torch  # noqa: F401
except ImportError as error:
    raise ImportError("fanstore.torch needs PyTorch: pip install 'fanstore-fs[torch]'") from error

from fanstore.torch.coordinated import CoordinatedDataLoader
from fanstore.torch.keepers import staged_keepers
from fanstore.torch.samplers import LocalitySampler, OpportunisticSampler
from fanstore.torch.stretch_memory import StretchMemory

__all__ = [
    "CoordinatedDataLoader",
    "LocalitySampler",
    "OpportunisticSampler",
    "StretchMemory",
    "staged_keepers",
]
