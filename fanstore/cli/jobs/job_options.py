"""The options by which a command names an existing job."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import click

from fanstore import config
from fanstore.cli.local import local_of
from fanstore.job.jobs import FoundJob, pick_job
from fanstore.staging.local_dir import MEMORY_DIR


def job_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the options --job and --local-dir to a command."""
    job = click.option("--job", metavar="ID", help="The job; not needed if there is only one.")
    local = click.option("--local-dir", metavar="DIR", help="The job's local directory.")
    return job(local(function))


def local_directory(local_dir: str | None) -> str:
    """Returns the path of the local directory that the option or the settings name."""
    return local_of(config.resolve({"local_dir": local_dir})).path


def local_directories(local_dir: str | None) -> list[str]:
    """Returns the local directories in which to look for jobs: the one that the option or the
    settings name, or the default one and that of --stage memory."""
    settings = config.resolve({"local_dir": local_dir})
    found = [local_of(settings).path]
    if settings.local_dir is None and found != [MEMORY_DIR]:
        found.append(MEMORY_DIR)
    return found


def chosen_job(job: str | None, local_dir: str | None, any_rank: bool = False) -> FoundJob:
    """Returns the job that the options name. any_rank: as in pick_job."""
    return pick_job(local_directories(local_dir), job, os.environ, any_rank)
