"""Coordinated preparation (CoorDL, section 5.3 of Mohan et al., VLDB 2021): the jobs of one node
prepare each batch once an epoch and share it. docs/coordinate.md is the tutorial."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fanstore.coordinate.messages import (
    CoordinationError,
    CoordinationLost,
    CoordinationRefused,
    CoordinationTimeout,
    PreparationFailed,
)

if TYPE_CHECKING:
    from fanstore.coordinate.member import Coordination, join

__all__ = [
    "Coordination",
    "CoordinationError",
    "CoordinationLost",
    "CoordinationRefused",
    "CoordinationTimeout",
    "PreparationFailed",
    "join",
]


def __getattr__(name: str) -> Any:
    """Imports the members' code and NumPy only when a program first uses a name of this package, so
    that the daemon does not load them."""
    if name in ("Coordination", "join"):
        from fanstore.coordinate import member

        return getattr(member, name)
    raise AttributeError(name)
