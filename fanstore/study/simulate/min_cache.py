"""The minimal cache: the least memory with which a policy is as fast as with memory for all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from fanstore.errors import UsageError
from fanstore.study.simulate.engine import simulate
from fanstore.study.simulate.results import PolicyOutcome
from fanstore.study.simulate.scenario import Scenario, Sizes

SLOWER = 1.01  # the job may take this many times as long as with memory for all
_PARTS = 128  # the answer is right to this part of the dataset


def min_caches(
    scenario: Scenario, policies: Sequence[str], on_epoch: Callable[..., object] = lambda *_: None
) -> dict[str, int | str]:
    """Returns for each policy its minimal cache, or the reason why it cannot run.

    That is the least capacity of a node's first storage class, in bytes, with which the job reads
    as much of the dataset as with room for all of it there, and takes no longer than SLOWER times
    as long. It is found by bisection among the multiples of a 128th of the dataset, which takes
    for granted that more memory never hurts. All else stays as it is in the scenario, such as other
    storage classes. on_epoch: called as fanstore.study.simulate.engine.simulate does.

    Raises UsageError where the scenario has no storage class, and as the engine does.
    """
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
    """Returns the least number of steps that is enough, where 0 is not and _PARTS is."""
    low, high = 0, _PARTS
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high


def _as_good(outcome: PolicyOutcome | str, best: PolicyOutcome) -> bool:
    """Returns whether a policy ran, reads as much of the dataset, and takes hardly longer."""
    if isinstance(outcome, str) or outcome.covered < best.covered:
        return False
    return outcome.total_s <= SLOWER * best.total_s


def _with_first_class(scenario: Scenario, capacity_bytes: int) -> Scenario:
    first, *others = scenario.system.classes
    classes = (replace(first, capacity_bytes=capacity_bytes), *others)
    return replace(scenario, system=replace(scenario.system, classes=classes))
