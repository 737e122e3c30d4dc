"""When a node fetches what: worked out from its reads and what it keeps, so that no plan holds it.

The rule is part of the format (docs/format.md, "Schedule"): a runtime that follows a plan and the
plan's expectations go by the same one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fanstore.policy.next_use import first_places

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def filling(kept: NDArray[np.bool_], first_reads: NDArray[Any]) -> NDArray[np.intp]:
    """Returns the samples that a node keeps, in the order in which it gets them: as it first reads
    them in the first epoch, then those that it does not read in it, by number.

    kept: for each sample whether the node does; first_reads: its reads of the first epoch.
    """
    samples = kept.nonzero()[0]
    places = first_places(first_reads, len(kept))[samples]
    order: NDArray[np.intp] = samples[places.argsort(kind="stable")]
    return order


def fetches(kept: NDArray[np.bool_], reads: NDArray[Any]) -> NDArray[Any]:
    """Returns what a node fetches ahead in an epoch after the first: its reads of that epoch, in
    their order, but those that it keeps. In the first epoch it fetches all its reads."""
    missing: NDArray[Any] = reads[~kept[reads]]
    return missing
