"""fanstore study simulate: estimates how long a job would take on a machine, under each policy."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from fanstore.study.simulate.results import Simulation
    from fanstore.study.simulate.scenario import Scenario


@click.command()
@click.argument("scenario", required=False)
@click.option("--policy", "policies", multiple=True, metavar="NAME",
              help="Only this policy; may be given several times.")  # fmt: skip
@click.option("--all", "everything", is_flag=True,
              help="Show all policies, and two more tables.")  # fmt: skip
@click.option("--epochs", type=click.IntRange(1), metavar="N",
              help="Epochs of the job, instead of the scenario's.")  # fmt: skip
@click.option("--sweep", "changes", multiple=True, metavar="NAME=VALUE,...",
              help="Each of these values instead of the scenario's, such as ram=32GB,64GB; given "
              "several times, all combinations.")  # fmt: skip
@click.option("--min-cache", is_flag=True,
              help="Look for the least memory of a node that costs the job no time; takes about "
              "ten times as long.")  # fmt: skip
@click.option("--plot", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
              help="Draw the result, too: FILE.svg or FILE.png.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
@click.option("--list", "as_list", is_flag=True, help="List scenarios and policies.")
@click.option("--quiet", is_flag=True, help="Show no progress.")
def command(
    scenario: str | None,
    policies: tuple[str, ...],
    everything: bool,
    epochs: int | None,
    changes: tuple[str, ...],
    min_cache: bool,
    plot: Path | None,
    as_json: bool,
    as_list: bool,
    quiet: bool,
) -> None:
    """Say how long the job of SCENARIO would take, and what would make it faster.

    SCENARIO is the path of a TOML file, or the name of a built-in one (--list). Only the scenario
    is read, and nothing runs. A policy says which files are kept where. By default the table has
    those of FanStore, the job without it (naive; staging-buffer, which reads ahead), and the bound
    (perfect); docs/simulator.md explains its columns.

    --sweep changes nodes, ranks_per_node, compute, preprocess, network, staging_buffer, epochs,
    batch, files, and the capacity of storage classes by their name.

    \b
    Examples:
      fanstore study simulate nopfs-1
      fanstore study simulate nopfs-2 --all
      fanstore study simulate coordl-ssd --policy coordl --sweep ram=200GB,400GB
      fanstore study simulate my-cluster.toml --min-cache --plot cluster.svg
    """
    if as_list:
        if scenario or policies or everything or epochs or changes or min_cache or plot:
            raise click.UsageError("--list goes with --json alone.")
        _list(as_json)
        return
    if scenario is None:
        raise click.UsageError("Missing argument 'SCENARIO'; --list shows the built-in scenarios.")
    if policies and everything:
        raise click.UsageError("--policy and --all exclude each other.")
    cases = _cases(scenario, epochs, changes)
    draw = _plot_of(plot, scenario, cases)
    done: list[_Result] = []
    for result in _results(cases, _chosen(policies, everything), min_cache, quiet):
        if not as_json:
            _show(result, everything, first=not done)
        done.append(result)
    if as_json:
        click.echo(json.dumps([result.as_dict() for result in done], indent=2))
    draw(done)


@dataclass(frozen=True)
class _Case:
    """A scenario, and the values that --sweep changed in it."""

    changed: dict[str, str]
    scenario: Scenario


@dataclass(frozen=True)
class _Result:
    """The result of simulating a case. caches: bytes by policy, from --min-cache."""

    case: _Case
    simulation: Simulation
    caches: dict[str, int | str] | None

    def as_dict(self) -> dict[str, Any]:
        told = {"changed": self.case.changed, **self.simulation.as_dict()}
        for name, found in (self.caches or {}).items():
            told["policies"][name]["min_cache_bytes"] = found if isinstance(found, int) else None
        return told


def _list(as_json: bool) -> None:
    from fanstore.study.simulate.library import built_in
    from fanstore.study.simulate.policies import POLICIES

    policies = {name: each.about for name, each in POLICIES.items()}
    listed = {"scenarios": built_in(), "policies": policies}
    if as_json:
        click.echo(json.dumps(listed, indent=2))
        return
    for title, entries in listed.items():
        click.echo(f"{title}:")
        for name, about in entries.items():
            click.echo(f"  {name:<20} {about}")


def _chosen(policies: tuple[str, ...], everything: bool) -> list[str]:
    from fanstore.study.simulate.advice import CHOICES
    from fanstore.study.simulate.engine import known_policies

    return known_policies(policies or (() if everything else CHOICES))


def _cases(name: str, epochs: int | None, changes: tuple[str, ...]) -> list[_Case]:
    """Reads all scenarios of a sweep, so that a wrong one is reported before the first one runs."""
    from fanstore.errors import UsageError
    from fanstore.study.simulate.library import changed, combinations, load
    from fanstore.study.simulate.scenario import scenario_from

    file, table = load(name)
    if epochs is not None:
        if any(change.startswith("epochs=") for change in changes):
            raise click.UsageError("--epochs and --sweep epochs=... exclude each other.")
        table = changed(file, table, {"epochs": str(epochs)})
    scenario_from(file, table)  # raises for mistakes that are not due to --sweep
    cases = []
    for case in combinations(changes):
        try:
            cases.append(_Case(case, scenario_from(file, changed(file, table, case))))
        except UsageError as error:
            raise UsageError(f"--sweep {_named(case)}: {error}" if case else str(error)) from None
    return cases


def _plot_of(plot: Path | None, name: str, cases: list[_Case]) -> Callable[[list[_Result]], None]:
    """Returns a function that draws the results. Raises before the simulation if they cannot be
    drawn."""
    if plot is None:
        return lambda _: None
    from fanstore.study.simulate.plots import check, draw

    check(plot, [case.changed for case in cases])
    title = Path(name).stem
    return lambda results: draw(plot, title, [(r.case.changed, r.simulation) for r in results])


def _results(
    cases: list[_Case], chosen: list[str], min_cache: bool, quiet: bool
) -> Iterator[_Result]:
    """Simulates the cases one after the other, with a progress bar on a terminal, which is hidden
    while the caller shows a result."""
    from tqdm import tqdm

    from fanstore.study.simulate.engine import min_caches, simulate

    total = None if min_cache else sum(each.scenario.job.epochs for each in cases)
    # None: tqdm shows the bar only on a terminal.
    with tqdm(total=total, unit=" epochs", leave=False, disable=True if quiet else None) as bar:
        for case in cases:
            bar.set_description_str(_named(case.changed) or None)
            simulation = simulate(case.scenario, chosen, bar.update)
            caches = min_caches(case.scenario, chosen, bar.update) if min_cache else None
            with tqdm.external_write_mode(file=sys.stdout):
                yield _Result(case, simulation, caches)


def _named(changed: dict[str, str]) -> str:
    return " ".join(f"{name}={value}" for name, value in changed.items())


def _show(result: _Result, everything: bool, first: bool) -> None:
    from fanstore.study.simulate.advice import advice
    from fanstore.study.simulate.results import lines_of

    if not first:
        click.echo()
    if result.case.changed:
        click.echo(_named(result.case.changed))
    said = advice(result.case.scenario.system, result.simulation)
    if said:
        click.echo(click.wrap_text(said, 80) + "\n")
    for line in lines_of(result.simulation, result.caches, everything):
        click.echo(line)
