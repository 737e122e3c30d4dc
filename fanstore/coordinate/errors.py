"""What can go wrong between jobs that share batches, as exceptions."""

from __future__ import annotations

from fanstore.errors import FanstoreError


class CoordinationError(FanstoreError):
    """A failure of coordinated preparation; the base of the others."""


class CoordinationRefused(CoordinationError):
    """The job may not join: it disagrees with the others, or memory is too small."""


class CoordinationTimeout(CoordinationError):
    """A wait reached its deadline; the message names who was waited for."""


class CoordinationLost(CoordinationError):
    """The node daemon does not answer any more, or this process is no member."""


class PreparationFailed(CoordinationError):
    """The preparation of a batch raised in this job; the message holds its traceback."""


BY_KIND: dict[str, type[CoordinationError]] = {
    "refused": CoordinationRefused,
    "timeout": CoordinationTimeout,
    "lost": CoordinationLost,
    "failed": PreparationFailed,
}
