"""Which node of a job keeps which sample."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fanstore.arrays import np
from fanstore.dataset import open_dataset
from fanstore.placement import Packs, place
from fanstore.policy import checks

if TYPE_CHECKING:
    from numpy.typing import NDArray


def staged_keepers(
    path: str | os.PathLike[str],
    names: Sequence[str | bytes | os.PathLike[str]],
    nodes: int,
) -> NDArray[np.int64]:
    """Returns for each sample the node that keeps it in a job that stages all packs, each on one
    node (--stage full, --replicas 1): int64 (samples), -1 for a sample that every node keeps.

    path: the dataset's directory. names: the relative path of each sample's file. nodes: ranks of
    FanStore (FANSTORE_WORLD_SIZE), 1 or more. Raises FanstoreError where there is no dataset,
    DatasetDamaged, FileNotFoundError for a name that it has not, and ValueError.
    """
    nodes = checks.integer("nodes", nodes, 1)
    with open_dataset(path) as dataset:
        infos = [dataset.pack_info(pack) for pack in range(dataset.pack_count)]
        packs = Packs(
            tuple(info.file_bytes for info in infos), tuple(info.everywhere for info in infos)
        )
        ranks = place(packs, nodes, 1)
        owners = [of[0] if len(of) == 1 else -1 for of in ranks]
        ids = [dataset.lookup(os.fsencode(name)) for name in names]
        return np.array([owners[dataset.record(each).pack] for each in ids], np.int64)
