"""The options of `run` and `start` that name the datasets and the way to serve them."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import click

from fanstore import config
from fanstore.buckets.address import absolute
from fanstore.cli.command import Command
from fanstore.cli.local import local_of
from fanstore.errors import FanstoreError, UsageError
from fanstore.job.agreement import failure_told_to_others
from fanstore.job.plan import JobPlan
from fanstore.launcher import Launcher, detect, for_rank
from fanstore.report.places import make_folder, page_at, remove_empty
from fanstore.staging.budget import budget_of

_ORDER = "fanstore.foresight.order"
_MADE = "fanstore.made"  # directories for the report


class ServingCommand(Command):
    """A command that remembers the order of --dataset and --mount. A word that belongs to no option
    is the value of a --dataset."""

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        options, *others = super().collect_usage_pieces(ctx)
        return [options, "SRC...", *others]

    def _with_datasets(self, words: Iterable[str]) -> Iterator[str]:
        options = [each for each in self.params if isinstance(each, click.Option)]
        valued = {name for each in options if not each.is_flag for name in each.opts}
        words = iter(words)
        for word in words:
            is_option = word.startswith("-") and word != "-"
            yield from (word,) if is_option else ("--dataset", word)
            if word in valued:
                yield from itertools.islice(words, 1)

    def parse_own(self, ctx: click.Context, args: list[str]) -> list[str]:
        args = list(self._with_datasets(args))
        try:
            _, _, order = self.make_parser(ctx).parse_args(args=list(args))
        except click.UsageError as error:  # click names the command only with the context
            error.ctx = error.ctx or ctx
            raise
        ctx.meta[_ORDER] = [p.name for p in order if p.name in ("dataset", "mount")]
        return super().parse_own(ctx, args)


def written_options(
    ctx: click.Context, serving: Mapping[str, Any]
) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Returns the name and the words of each given option of `fanstore run` (in `serving`). Raises
    UsageError for values that are not valid."""
    config.resolve(serving)
    written: list[tuple[str, tuple[str, ...]]] = []
    for path, prefix in pair_mounts(ctx.meta[_ORDER], serving["dataset"], serving["mount"]):
        written.append(("dataset", ("--dataset", path)))
        written += [] if prefix is None else [("mount", ("--mount", prefix))]
    for setting in config.SETTINGS:
        value = serving.get(setting.name)
        if value is not None:
            words = (setting.flag,) if value is True else (setting.flag, value)
            written.append((setting.name, words))
    return tuple(written)


def _setting_option(setting: config.Setting) -> Callable[..., Any]:
    """Returns the option of a setting. Its value is None if it is not given."""
    flag, _, metavar = setting.option.partition(" ")
    is_flag = setting.kind is bool
    return click.option(
        flag, setting.name, metavar=metavar or None, is_flag=is_flag, default=None,
        help=setting.meaning,
    )  # fmt: skip


def serving_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the options of a job to a command; their values go to `make_plan`."""
    options = [
        click.option(
            "--dataset",
            multiple=True,
            metavar="SRC",
            help="The same as SRC: a directory or the objects of a bucket (s3://BUCKET/PREFIX), to "
            "read as they are, or a dataset made by `fanstore prepare`. May be given several "
            "times.",
        ),
        click.option(
            "--mount",
            multiple=True,
            metavar="PREFIX",
            help="Path at which the SRC before it appears [default: a directory itself; otherwise "
            "/tmp/fanstore-$USER/<its name>].",
        ),
    ]
    options += [_setting_option(setting) for setting in config.SETTINGS if setting.option]
    for option in reversed(options):
        function = option(function)
    return function


@contextlib.contextmanager
def usage_as_failure() -> Iterator[None]:
    """Turns usage errors into failures (exit code 125): the command itself may exit with 2."""
    try:
        yield
    except FanstoreError as error:
        if error.exit_code != UsageError.exit_code:
            raise
        raise FanstoreError(str(error)) from error


def pair_mounts(
    order: list[str], datasets: tuple[str, ...], mounts: tuple[str, ...]
) -> tuple[tuple[str, str | None], ...]:
    """Returns each dataset with the --mount between it and the next --dataset, or None. Raises
    UsageError. order: "dataset" or "mount" for each option."""
    if not datasets:
        raise UsageError(
            "name a directory, a dataset or a bucket to read: fanstore run SRC -- CMD..."
        )
    if "" in (*datasets, *mounts):
        raise UsageError("SRC and --mount want a path; one of them is empty")
    names, prefixes = iter(datasets), iter(mounts)
    pairs: list[tuple[str, str | None]] = []
    for option in order:
        if option == "dataset":
            pairs.append((next(names), None))
        elif not pairs or pairs[-1][1] is not None:
            raise UsageError(
                f"--mount {next(prefixes)} belongs to no SRC: give each --mount after its own"
            )
        else:
            pairs[-1] = (pairs[-1][0], next(prefixes))
    return tuple(pairs)


def refuse_idle_options(settings: config.Settings) -> None:
    """Raises UsageError for options that have no effect together."""
    given = [
        name for name in ("stage", "replicas", "local_bytes") if settings.sources[name] == "flag"
    ]
    if settings.in_place and given:
        raise UsageError(
            f"{config.spoken('flag', given[0])} means nothing with --in-place: nothing is copied"
        )
    if settings.metrics_port is None and settings.sources["metrics_address"] == "flag":
        raise UsageError("--metrics-address means nothing without --metrics-port")


def current_umask() -> int:
    """Returns this process's umask."""
    umask = os.umask(0o077)
    os.umask(umask)
    return umask


def report_page(ctx: click.Context, settings: config.Settings) -> str:
    """Makes the directory of the report's page and returns the page's absolute path, or "" if there
    is none. Raises UsageError if the page cannot be made."""
    if not settings.report:
        return ""
    where = config.spoken(settings.sources["report"], "report")
    if settings.trace == "off":
        raise UsageError(f"{where} needs a trace, and {_trace_source(settings)} says off")
    page = page_at(settings.report)
    try:
        ctx.meta[_MADE] = make_folder(page.parent)
    except OSError as error:
        raise UsageError(f"{where}: {page.parent}: {error.strerror}") from None
    return os.fspath(page)


def remove_empty_report(ctx: click.Context) -> None:
    """Removes the directories that were made for a report, if they are empty."""
    remove_empty(ctx.meta.get(_MADE, ()))


def _trace_source(settings: config.Settings) -> str:
    return config.spoken(settings.sources["trace"], "trace")


def trace_file(settings: config.Settings, page: str) -> str:
    """Returns the absolute path of the file in which the trace is kept, or "". page: the path of
    the report's page, or ""; if --trace names no file, the trace is kept beside the page. Raises
    UsageError if there can be no such file."""
    if settings.trace in ("on", "off"):
        path = page and page.removesuffix(".html") + ".trace"
        where = config.spoken(settings.sources["report"], "report")
    else:
        path, where = os.path.abspath(settings.trace), _trace_source(settings)
        if os.path.isdir(path):
            raise UsageError(f"{where}: {path} is a directory; name a file, on or off")
    if os.path.exists(path) and not os.path.isfile(path):  # such as /dev/null
        raise UsageError(f"{where}: {path} is no regular file, and is not replaced")
    if path and not os.path.isdir(os.path.dirname(path)):
        raise UsageError(f"{where}: there is no directory {os.path.dirname(path)}")
    return path


def order_file(settings: config.Settings, launcher: Launcher) -> str:
    """Returns the absolute path of the file with the order of reads, or "". Raises UsageError if
    there is no such file, or if it would have no effect: without a trace, or read in place."""
    if settings.order in ("auto", "off", "torch"):
        return ""
    where = config.spoken(settings.sources["order"], "order")
    path = os.path.abspath(for_rank(settings.order, launcher) or "")
    if settings.trace == "off":
        raise UsageError(f"{where} needs a trace, and {_trace_source(settings)} says off")
    if settings.in_place:
        in_place = config.spoken(settings.sources["in_place"], "in_place")
        raise UsageError(f"{where} brings nothing of what is read in place, and {in_place} asks so")
    if not os.path.isfile(path):
        raise UsageError(f"{where}: there is no file {path}")
    return path


def make_plan(
    ctx: click.Context, kind: str, dataset: tuple[str, ...], mount: tuple[str, ...], **flags: Any
) -> JobPlan:
    """Returns the job's plan, made from the options, the environment and the settings file."""
    launcher = detect(os.environ)
    with failure_told_to_others(launcher):
        settings = config.resolve(flags)
        refuse_idle_options(settings)
        pairs = pair_mounts(ctx.meta[_ORDER], dataset, mount)
        pairs = tuple((path, for_rank(prefix, launcher)) for path, prefix in pairs)
        local = local_of(settings)
        budget = budget_of(settings, local)
        page = report_page(ctx, settings)
        return JobPlan(
            pairs,
            settings,
            local,
            kind,
            budget,
            launcher,
            absolute(settings.output_dir),
            current_umask(),
            trace_file(settings, page),
            page,
            order_file(settings, launcher),
        )
