"""Finds the ranks that share this rank's node, its file systems and its user. Clients read what
those ranks have staged as they read their own packs, without a message
(csrc/client/job/neighbours.c)."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from fanstore._native import lib
from fanstore.staging.run import StagedDataset
from fanstore.startup import World

_NAMESPACES = ("mnt", "net", "user")


@dataclass(frozen=True)
class Whereabouts:
    """Tells the node of a rank. node: equal for two processes of one user that see the same file
    systems and network. directory: the rank's job directory. inode: the device and inode number of
    that directory."""

    node: tuple[object, ...]
    directory: str
    inode: tuple[int, int]


def whereabouts(directory: str) -> Whereabouts:
    """Returns where this rank is, with its job directory. Raises OSError: a container may hide the
    files of /proc."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    spaces = [os.readlink(f"/proc/self/ns/{name}") for name in _NAMESPACES]
    return Whereabouts((boot, os.getuid(), *spaces), directory, _inode(directory))


def _inode(directory: str) -> tuple[int, int]:
    found = os.stat(directory)
    return found.st_dev, found.st_ino


def _is_here(other: Whereabouts) -> bool:
    """Returns whether another rank's job directory is at its path here, too: nodes that were
    started from one image of memory have the same boot id."""
    try:
        return _inode(other.directory) == other.inode
    except OSError:
        return False


def find_neighbours(world: World, directory: str, wanted: bool) -> dict[int, str]:
    """Returns the job directories of the other ranks of this node, by rank. All ranks call this at
    the same time. wanted: whether this rank takes part."""
    own = None
    if wanted and world.world_size > 1:
        with contextlib.suppress(OSError):
            own = whereabouts(directory)
    told: list[Whereabouts | None] = world.gather_all(own)
    return {
        rank: other.directory
        for rank, other in enumerate(told)
        if own is not None and other is not None and rank != world.rank
        if other.node == own.node and _is_here(other)
    }


def packs_at(neighbours: Iterable[int], staging: StagedDataset) -> set[int]:
    """Returns the packs of a dataset that this rank has not staged, but a neighbour has, whole."""
    ranks = set(neighbours)
    return {
        pack
        for pack, place in enumerate(staging.places)
        if place.state != lib.FAN_PLACE_STAGED and ranks & set(place.replicas)
    }
