"""Exceptions of jobs that share batches."""

from __future__ import annotations

from fanstore.errors import FanstoreError


class CoordinationError(FanstoreError):
    """A failure of coordinated preparation; the base class of the exceptions below."""


class CoordinationRefused(CoordinationError):
    """The job may not join: it disagrees with the others, or memory is too small."""


class CoordinationTimeout(CoordinationError):
    """A wait reached its deadline; the message names the processes that the job waited for."""


class CoordinationLost(CoordinationError):
    """The node daemon no longer answers, or this process is no member of the coordination."""


class PreparationFailed(CoordinationError):
    """`prepare` raised an exception in this job; the message holds its traceback."""


BY_KIND: dict[str, type[CoordinationError]] = {
    "refused": CoordinationRefused,
    "timeout": CoordinationTimeout,
    "lost": CoordinationLost,
    "failed": PreparationFailed,
}
