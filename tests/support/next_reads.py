"""When each sample is read again, one read after the other."""

from __future__ import annotations

from typing import Any

import numpy as np

from fanstore.policy.next_use import NEVER


def next_uses(reads: Any) -> Any:
    """Returns for each read the place of the next one of its sample, or NEVER (uint32)."""
    later: dict[int, int] = {}
    uses = np.empty(len(reads), np.uint32)
    for place in reversed(range(len(reads))):
        uses[place] = later.get(int(reads[place]), NEVER)
        later[int(reads[place])] = place
    return uses
