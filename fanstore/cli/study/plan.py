"""fanstore study plan: works out beforehand what each node of a job keeps and fetches."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fanstore.cli.command import Command

if TYPE_CHECKING:
    from fanstore.dataset import Dataset
    from fanstore.plan.description import PlanDescription
    from fanstore.plan.planfile import PlanFile
    from fanstore.study.planning.request import PlanOptions

_FILE = click.Path(path_type=Path, dir_okay=False)


@click.command(
    cls=Command,
    common="out machine nodes ranks_per_node epochs batch compute preprocess order seed show",
)
@click.argument("dataset", required=False, type=click.Path(path_type=Path))
@click.option("--out", type=_FILE, metavar="PLAN", help="The file for the plan.")
@click.option("--machine", metavar="FILE", help="The machine, as `fanstore study calibrate` "
              "writes it (default: this machine's).")  # fmt: skip
@click.option("--scenario", metavar="FILE", help="Machine and job, as `fanstore study simulate` "
              "takes them.")  # fmt: skip
@click.option("--under", metavar="DIR", help="The samples are the files below this directory of "
              "the dataset, such as train (default: all).")  # fmt: skip
@click.option("--nodes", metavar="N", help="Nodes of the job.")
@click.option("--ranks-per-node", metavar="N", help="Ranks of a node.")
@click.option("--epochs", metavar="N", help="Epochs of the job.")
@click.option("--batch", metavar="N", help="Samples in a batch of a rank.")
@click.option("--compute", metavar="RATE", help="Rate at which a rank consumes, such as 250MB/s.")
@click.option("--preprocess", metavar="RATE", help="Rate at which a thread prepares, e.g. 500MB/s.")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE",
              help="Override a value of the machine: network, staging_buffer, or the capacity of a "
              "storage class (NAME is the class).")  # fmt: skip
@click.option("--order", metavar="NAME", help="The order of reads, such as torch-distributed.")
@click.option("--seed", type=int, metavar="N", help="The seed of the order.")
@click.option("--parameter", "parameters", multiple=True, metavar="NAME=VALUE",
              help="Another parameter of the order, such as drop_last=true.")  # fmt: skip
@click.option("--recorded", multiple=True, type=_FILE, metavar="FILE",
              help="Take the order from FILE, the recorded reads of one rank, instead of from "
              "--order; once for each rank.")  # fmt: skip
@click.option("--force", is_flag=True, help="Replace PLAN.")
@click.option("--show", type=_FILE, metavar="PLAN", help="Check a plan and say what it expects; "
              "with DATASET, check that it is of that dataset.")  # fmt: skip
@click.option("--node", type=click.IntRange(0), metavar="N", help="With --show and DATASET: list "
              "the files that node N will keep, in the order of fetching.")  # fmt: skip
@click.option("--epoch", type=click.IntRange(0), metavar="N", help="With --node: list what it "
              "fetches in epoch N instead.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@click.option("--quiet", is_flag=True, help="No progress.")
def command(**given: Any) -> None:
    """Work out what each node of a job keeps of DATASET, what it fetches and when, and how long the
    job takes: a plan, as a file. Equal arguments give equal files.

    An option overrides the value in the file of the machine or the scenario.

    \b
    Examples:
      fanstore study plan imagenet.fan --out imagenet.plan --nodes 8 \\
          --ranks-per-node 4 --compute 250MB/s --preprocess 500MB/s \\
          --epochs 90 --batch 64 --order torch-distributed --seed 0
      fanstore study plan --show imagenet.plan
    """
    if given["show"] is not None:
        _show(given)
    else:
        _make(given)


def _make(given: dict[str, Any]) -> None:
    from tqdm import tqdm

    from fanstore.atomic import check_free
    from fanstore.dataset import open_dataset
    from fanstore.plan.samples import samples_below
    from fanstore.study.planning.making import PlanSteps, make_plan
    from fanstore.study.planning.request import request_of

    for name in ("node", "epoch"):
        if given[name] is not None:
            raise click.UsageError(f"--{name} goes with --show.")
    if given["dataset"] is None:
        raise click.UsageError("Missing argument 'DATASET'.")
    if given["out"] is None:
        raise click.UsageError("Missing option '--out': where the plan goes.")
    options = _options(given)
    check_free(given["out"], given["force"])
    under = given["under"] or "."
    with open_dataset(given["dataset"]) as dataset:
        samples = samples_below(dataset, under)
        request = request_of(options, dataset, samples)
        quiet = True if given["quiet"] else None  # None: tqdm finds out whether there is a terminal
        with tqdm(total=2 * request.job.epochs, unit="epoch", leave=False, disable=quiet) as bar:
            steps = PlanSteps(bar.set_description, bar.update)
            told = make_plan(dataset, under, samples, request, given["out"], given["force"], steps)
    _print(told, given["as_json"])


def _options(given: dict[str, Any]) -> PlanOptions:
    from fanstore.study.planning.request import PlanOptions

    for one, other in (("machine", "scenario"), ("order", "recorded")):
        if given[one] and given[other]:
            raise click.UsageError(f"--{one} and --{other} exclude each other.")
    for name in ("seed", "parameters"):
        if given[name] not in (None, ()) and given["order"] is None:
            raise click.UsageError(f"--{name.rstrip('s')} goes with --order.")
    changes, sources = _changes(given)
    order, recorded = _order(given), given["recorded"]
    return PlanOptions(given["machine"], given["scenario"], changes, sources, order, recorded)


def _changes(given: dict[str, Any]) -> tuple[dict[str, str], dict[str, str]]:
    """Returns the values that options give for names of a scenario, and the option of each name."""
    names = ("nodes", "ranks_per_node", "epochs", "batch", "compute", "preprocess")
    changes = {name: given[name] for name in names if given[name] is not None}
    sources = {name: f"--{name.replace('_', '-')}" for name in changes}
    for setting in given["settings"]:
        name, value = _pair("--set", setting)
        if name in changes or name == "files":
            reason = "has no meaning here" if name == "files" else "is given twice"
            raise click.UsageError(f"--set: {name} {reason}.")
        changes[name], sources[name] = value, f"--set: {name}"
    return changes, sources


def _order(given: dict[str, Any]) -> dict[str, Any] | None:
    if given["order"] is None:
        return None
    order: dict[str, Any] = {"name": given["order"]}
    if given["seed"] is not None:
        order["seed"] = given["seed"]
    for parameter in given["parameters"]:
        name, value = _pair("--parameter", parameter)
        if name in order:
            raise click.UsageError(f"--parameter: {name} is given twice.")
        order[name] = _toml_value(value)
    return order


def _pair(option: str, text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    if not name or not value:
        raise click.UsageError(f"{option}: {text!r} is not NAME=VALUE.")
    return name, value


def _toml_value(text: str) -> Any:
    """Returns the text as a number or a bool if it is one, otherwise as it is."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, bool | int | float) else text


def _show(given: dict[str, Any]) -> None:
    from fanstore.dataset import open_dataset
    from fanstore.plan.planfile import PlanFile

    allowed = {"show", "dataset", "node", "epoch", "as_json", "quiet"}
    for name, value in given.items():
        if name not in allowed and value not in (None, (), False):
            raise click.UsageError(f"--show does not go with --{name.replace('_', '-')}.")
    if given["node"] is not None and given["dataset"] is None:
        raise click.UsageError("--node goes with DATASET, which has the names.")
    if given["epoch"] is not None and given["node"] is None:
        raise click.UsageError("--epoch goes with --node.")
    with PlanFile(given["show"]) as plan:
        if given["dataset"] is None:
            plan.check()
        else:
            with open_dataset(given["dataset"]) as dataset:
                plan.check(plan.check_dataset(dataset))
                if given["node"] is not None:
                    _list(plan, dataset, given["node"], given["epoch"], given["as_json"])
                    return
        _print(plan.description, given["as_json"])


def _print(told: PlanDescription, as_json: bool) -> None:
    from fanstore.study.planning.showing import as_dict, lines_of

    if as_json:
        click.echo(json.dumps(as_dict(told), indent=2))
        return
    for line in lines_of(told):
        click.echo(line)


def _list(plan: PlanFile, dataset: Dataset, node: int, epoch: int | None, as_json: bool) -> None:
    """Prints the paths that a node keeps, or those it fetches in an epoch, one a line."""
    from fanstore.study.planning.showing import fetched_by

    nodes = plan.description.system.nodes
    if node >= nodes:
        raise click.UsageError(f"--node: {node} is not one of the nodes 0 to {nodes - 1}.")
    records = plan.check_dataset(dataset).records
    paths = (dataset.relpath(int(records[sample])) for sample in fetched_by(plan, node, epoch))
    if as_json:
        click.echo(json.dumps([os.fsdecode(path) for path in paths]))
        return
    for path in paths:
        sys.stdout.buffer.write(path + b"\n")
    sys.stdout.buffer.flush()
