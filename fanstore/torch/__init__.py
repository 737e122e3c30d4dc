"""Loaders for PyTorch, which is needed by whoever uses them and by nothing else of FanStore."""
"""Samplers for PyTorch's DataLoader that read what is near (docs/samplers.md). Needs torch."""
"""What torch's DataLoader takes to read what is near: samplers, and memory for one of them
(docs/samplers.md). Needs torch."""

try:
    import torch  # noqa: F401
except ImportError as error:
    raise ImportError("fanstore.torch needs PyTorch: pip install 'fanstore-fs[torch]'") from error

from fanstore.torch.keepers import staged_keepers
from fanstore.torch.samplers import LocalitySampler, OpportunisticSampler
from fanstore.torch.stretch_memory import StretchMemory

__all__ = ["LocalitySampler", "OpportunisticSampler", "StretchMemory", "staged_keepers"]
