"""Simulates a scenario under several policies, side by side as far as memory allows; and finds the
minimal cache: the least memory with which a policy is as fast as with memory for the whole
dataset."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING

from fanstore.arrays import np
from fanstore.errors import UsageError
from fanstore.study.formulas import lower_bound_s
from fanstore.study.simulate.epochs import Epoch, epoch_of, padded, reads_of_epochs
from fanstore.study.simulate.policies import POLICIES, CannotRun, PolicyPlan
from fanstore.study.simulate.results import PolicyOutcome, Simulation
from fanstore.study.simulate.runner import Runner
from fanstore.study.simulate.scenario import Scenario, Sizes
from fanstore.study.simulate.workload import Workload
from fanstore.wording import show_bytes

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Policies are simulated side by side as long as the pairs of a sample and a node in all of them are
# at most so many.
_SIDE_BY_SIDE_MAX = 400_000_000


def known_policies(names: Sequence[str]) -> list[str]:
    """Returns the policies with these names; all policies if there are no names. Raises UsageError,
    which lists the allowed names."""
    for name in names:
        if name not in POLICIES:
            raise UsageError(f"there is no policy {name!r}; allowed: {', '.join(POLICIES)}")
    return [name for name in POLICIES if name in names or not names]


def simulate(
    scenario: Scenario,
    policies: Sequence[str] = (),
    on_epoch: Callable[[], object] = lambda: None,
) -> Simulation:
    """Returns the results of each policy in a scenario; policies: names, or none for all. on_epoch
    is called as often as there are epochs, while they are simulated. Raises UsageError for what the
    scenario does not allow."""
    names = known_policies(policies)
    workload = Workload(scenario)
    system = scenario.system
    together = max(1, _SIDE_BY_SIDE_MAX // (system.nodes * len(workload.sizes_bytes)))
    groups = [names[first : first + together] for first in range(0, len(names), together)]
    outcomes: dict[str, PolicyOutcome | str] = {}
    turns = count(1)

    def on_turn() -> None:
        if next(turns) % len(groups) == 0:
            on_epoch()

    for group in groups:
        outcomes.update(_outcomes(workload, group, on_turn))
        workload.forget()
    return Simulation(
        files=len(workload.sizes_bytes),
        dataset_bytes=workload.dataset_bytes,
        ranks=system.ranks,
        epochs=scenario.job.epochs,
        lower_bound_s=lower_bound_s(
            workload.dataset_bytes, system.ranks, system.compute_bytes_per_s
        ),
        policies=outcomes,
    )


def outcome_of(workload: Workload, plan: PolicyPlan) -> PolicyOutcome:
    """Returns the result of a policy's plan. Raises UsageError if the scenario does not allow
    it."""
    runner = Runner(workload, plan)
    _run(workload, [runner], lambda: None)
    return runner.outcome()


def _outcomes(
    workload: Workload, names: Sequence[str], on_epoch: Callable[[], object]
) -> dict[str, PolicyOutcome | str]:
    reasons: dict[str, str] = {}
    runners: dict[str, Runner] = {}
    for name in names:
        try:
            runners[name] = Runner(workload, POLICIES[name].plan(workload))
        except CannotRun as error:
            reasons[name] = str(error)
    _run(workload, list(runners.values()), on_epoch)
    return {name: reasons[name] if name in reasons else runners[name].outcome() for name in names}


def _run(workload: Workload, runners: list[Runner], on_epoch: Callable[[], object]) -> None:
    sizes = np.append(workload.sizes_bytes, 0).astype(np.float64)
    nothing = len(workload.sizes_bytes)
    batch_size = workload.scenario.job.batch_size
    for number, reads in enumerate(reads_of_epochs(workload.scenario, nothing)):
        matrix = padded(reads, batch_size, nothing)
        epoch = _epoch(workload, number, matrix, sizes)
        for runner in runners:
            changed = runner.reads_of(number, matrix)
            runner.advance(epoch if changed is matrix else _epoch(workload, number, changed, sizes))
        on_epoch()


def _epoch(
    workload: Workload, number: int, reads: NDArray[np.intp], sizes: NDArray[np.float64]
) -> Epoch:
    """Returns one epoch of the job. Raises UsageError if a batch does not fit into the staging
    buffer."""
    scenario = workload.scenario
    compute = scenario.system.compute_bytes_per_s
    epoch = epoch_of(number, reads, sizes, compute, scenario.job.batch_size)
    largest = int(epoch.batch_bytes.max())
    capacity = scenario.system.staging_buffer.capacity_bytes
    if largest > capacity:
        raise UsageError(
            f"{scenario.file}: system.staging_buffer.capacity is {show_bytes(capacity)}, and a "
            f"batch has up to {show_bytes(largest)}; allowed: at least as much as a batch"
        )
    return epoch


SLOWER = 1.01  # "as fast": takes at most so many times as long as with memory for all
_PARTS = 128  # the result is exact to one part of the dataset in so many


def min_caches(
    scenario: Scenario, policies: Sequence[str], on_epoch: Callable[..., object] = lambda *_: None
) -> dict[str, int | str]:
    """Returns for each policy its minimal cache, or the reason why it cannot run.

    The minimal cache is the least capacity of a node's first storage class, in bytes, with which
    the job reads as much of the dataset as with room for all of it there, and takes at most SLOWER
    times as long. It is found by bisection among the multiples of a 128th of the dataset, on the
    assumption that more memory never hurts. Everything else stays as in the scenario, such as other
    storage classes. on_epoch: called as by `simulate`, for each simulation.

    Raises UsageError if the scenario has no storage class, and the errors of `simulate`."""
    if not scenario.system.classes:
        raise UsageError(
            f"{scenario.file}: a minimal cache was asked for, and system.classes is empty; "
            "allowed: one storage class or more"
        )
    drawn = scenario.sizes.draw()
    scenario = replace(scenario, sizes=Sizes(scenario.sizes.kind, lambda: drawn))
    step = max(1, -(-int(drawn.sum()) // _PARTS))

    def outcomes(names: Sequence[str], steps: int) -> dict[str, PolicyOutcome | str]:
        return simulate(_with_first_class(scenario, steps * step), names, on_epoch).policies

    with_all = outcomes(policies, _PARTS)
    runs = [name for name, each in with_all.items() if isinstance(each, PolicyOutcome)]
    with_none = outcomes(runs, 0) if runs else {}
    found: dict[str, int | str] = {}
    for name, best in with_all.items():
        if isinstance(best, str):
            found[name] = best
            continue

        def is_enough(steps: int, name: str = name, best: PolicyOutcome = best) -> bool:
            return _as_good(outcomes([name], steps)[name], best)

        found[name] = 0 if _as_good(with_none[name], best) else step * _least(is_enough)
    return found


def _least(is_enough: Callable[[int], bool]) -> int:
    """Returns the least number of steps that is enough, by bisection: 0 is not enough, and _PARTS
    is."""
    low, high = 0, _PARTS
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high


def _as_good(outcome: PolicyOutcome | str, best: PolicyOutcome) -> bool:
    """Returns whether a policy ran, read as much of the dataset as in `best`, and took at most
    SLOWER times as long."""
    if isinstance(outcome, str) or outcome.covered < best.covered:
        return False
    return outcome.total_s <= SLOWER * best.total_s


def _with_first_class(scenario: Scenario, capacity_bytes: int) -> Scenario:
    first, *others = scenario.system.classes
    classes = (replace(first, capacity_bytes=capacity_bytes), *others)
    return replace(scenario, system=replace(scenario.system, classes=classes))
