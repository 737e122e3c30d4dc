"""fanstore simulate: how long a job would take on a machine, under each policy."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from fanstore.simulate.results import Simulation


@click.command(short_help="Say how long a job would take, under each policy.")
@click.argument("scenario", required=False)
@click.option("--policy", "policies", multiple=True, metavar="NAME",
              help="Only this policy; may be given several times.")  # fmt: skip
@click.option("--epochs", type=click.IntRange(1), metavar="N", help="Epochs of the job.")
@click.option("--sweep", "changes", multiple=True, metavar="NAME=VALUE,...",
              help="Each of these values instead of the scenario's, such as ram=32GB,64GB; given "
              "several times, all combinations.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@click.option("--list", "as_list", is_flag=True, help="List scenarios and policies.")
@click.option("--quiet", is_flag=True, help="No progress.")
def command(
    scenario: str | None,
    policies: tuple[str, ...],
    epochs: int | None,
    changes: tuple[str, ...],
    as_json: bool,
    as_list: bool,
    quiet: bool,
) -> None:
    """Say how long the job of SCENARIO would take on its machine, under each policy.

    SCENARIO is the path of a TOML file, or the name of a built-in one (--list). A policy says what
    is kept where. `first epoch` has what is loaded before it; `stall` is the part of the job's
    time in which nothing is computed. What --sweep can change: nodes, ranks_per_node, compute,
    preprocess, network, staging_buffer, epochs, batch, files, and storage classes by their name.
    """
    if as_list:
        if scenario or policies or epochs or changes:
            raise click.UsageError("--list goes with --json alone.")
        _list(as_json)
        return
    if scenario is None:
        raise click.UsageError("Missing argument 'SCENARIO'; --list shows what is built in.")
    results = _simulations(scenario, policies, epochs, changes, quiet)
    if as_json:
        click.echo(json.dumps([{"changed": c, **r.as_dict()} for c, r in results], indent=2))
        return
    for number, (changed, simulation) in enumerate(results):
        _show(number, changed, simulation)


def _list(as_json: bool) -> None:
    from fanstore.simulate.library import built_in
    from fanstore.simulate.policies import POLICIES

    policies = {name: each.about for name, each in POLICIES.items()}
    listed = {"scenarios": built_in(), "policies": policies}
    if as_json:
        click.echo(json.dumps(listed, indent=2))
        return
    for title, entries in listed.items():
        click.echo(f"{title}:")
        for name, about in entries.items():
            click.echo(f"  {name:<20} {about}")


def _simulations(
    name: str,
    policies: tuple[str, ...],
    epochs: int | None,
    changes: tuple[str, ...],
    quiet: bool,
) -> list[tuple[dict[str, str], Simulation]]:
    """What was changed, and what that gave. All scenarios are read before the first one runs."""
    from tqdm import tqdm

    from fanstore.simulate.engine import known_policies, simulate
    from fanstore.simulate.library import changed, load
    from fanstore.simulate.scenario import scenario_from
    from fanstore.simulate.sweep import combinations

    file, table = load(name)
    if epochs is not None:
        if any(change.startswith("epochs=") for change in changes):
            raise click.UsageError("--epochs and --sweep epochs=... exclude each other.")
        table = changed(file, table, {"epochs": str(epochs)})
    chosen = known_policies(policies)
    cases = combinations(changes)
    scenarios = [scenario_from(file, changed(file, table, case)) for case in cases]
    total = sum(each.job.epochs for each in scenarios)
    # On a terminal alone; None: tqdm finds that out.
    with tqdm(total=total, unit="epoch", leave=False, disable=True if quiet else None) as bar:
        done = [simulate(each, chosen, bar.update) for each in scenarios]
    return list(zip(cases, done, strict=True))


def _show(number: int, changed: dict[str, str], simulation: Simulation) -> None:
    from fanstore.simulate.table import lines_of

    if number:
        click.echo()
    if changed:
        click.echo(" ".join(f"{name}={value}" for name, value in changed.items()))
    for line in lines_of(simulation):
        click.echo(line)
