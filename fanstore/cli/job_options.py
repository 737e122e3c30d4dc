"""The options by which a command names a job that is there."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import click

from fanstore import config
from fanstore.launcher import detect, for_rank
from fanstore.load.local_dir import choose
from fanstore.serve.jobs import FoundJob, pick_job


def job_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the options --job and --local-dir to a command."""
    job = click.option("--job", metavar="ID", help="The job; not needed when there is one only.")
    local = click.option("--local-dir", metavar="DIR", help="Where the job's local directory is.")
    return job(local(function))


def local_directory(local_dir: str | None) -> str:
    """Returns the local directory below which jobs are looked for."""
    settings = config.resolve({"local_dir": local_dir})
    named = for_rank(settings.local_dir, detect(os.environ))
    return choose(named, settings.sources["local_dir"]).path


def chosen_job(job: str | None, local_dir: str | None, any_rank: bool = False) -> FoundJob:
    """Returns the job that the options mean; any_rank: as pick_job has it."""
    return pick_job(local_directory(local_dir), job, os.environ, any_rank)
