"""Saves the outputs of dead jobs: of one rank, out of its tree, and of several."""

from __future__ import annotations

from collections.abc import Callable

from fanstore.outputs.stageout import rescue as of_ranks
from fanstore.outputs.stageout.rescue import Rescued, rescue_lines
from fanstore.outputs.tree import dead_job as of_tree

__all__ = ["Rescued", "left_behind", "needs_rescue", "rescue", "rescue_lines"]


def left_behind(job_directory: str) -> tuple[int, int, str] | None:
    """Returns what a job that nobody holds did not place of its outputs: files, bytes, and where
    they belong. None: nothing can be known."""
    return of_tree.left_behind(job_directory) or of_ranks.left_behind(job_directory)


def needs_rescue(job_directory: str) -> bool:
    """Tells whether a job that nobody holds left something to do about its outputs. Raises OSError
    where that cannot be known: such a job is left alone."""
    return of_tree.needs_rescue(job_directory) or of_ranks.needs_rescue(job_directory)


def rescue(job_directory: str, given_up: Callable[[], bool] = lambda: False) -> Rescued | None:
    """Places what a dead job left; `given_up` ends that, and the rest is kept. Returns None where
    there was nothing to do. The caller holds the job's lock."""
    return of_tree.rescue(job_directory, given_up) or of_ranks.rescue(job_directory, given_up)
