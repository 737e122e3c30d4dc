"""Datasets, loaders and samplers for PyTorch (docs/loaders.md, docs/coordinate.md,
docs/samplers.md). No other part of FanStore needs torch."""

try:
    import torch  # noqa: F401
except ImportError as error:
    raise ImportError("fanstore.torch needs PyTorch: pip install 'fanstore-fs[torch]'") from error

from fanstore.torch.balance import WorkerBalance
from fanstore.torch.coordinated import CoordinatedDataLoader
from fanstore.torch.files.file_dataset import FileDataset, ImageFolder
from fanstore.torch.job import Job
from fanstore.torch.loader import DataLoader
from fanstore.torch.samplers import LocalitySampler, OpportunisticSampler
from fanstore.torch.samplers.locality import staged_keepers
from fanstore.torch.stretch_memory import StretchMemory

__all__ = [
    "CoordinatedDataLoader",
    "DataLoader",
    "FileDataset",
    "ImageFolder",
    "Job",
    "LocalitySampler",
    "OpportunisticSampler",
    "StretchMemory",
    "WorkerBalance",
    "staged_keepers",
]
