"""What the papers print of their simulations, where a scenario of ours can be held to it."""

from __future__ import annotations

import pytest

from fanstore.simulate.engine import simulate
from fanstore.simulate.library import changed, load
from fanstore.simulate.results import Outcome, Simulation
from fanstore.simulate.scenario import scenario_from

REAL = ("deepio-ordered", "lbann-dynamic", "locality-aware", "coordl", "nopfs",
        "frequency-partition")  # fmt: skip


def run(name: str, *policies: str, **changes: str) -> Simulation:
    file, table = load(name)
    return simulate(scenario_from(file, changed(file, table, changes)), policies)


def outcomes(simulation: Simulation) -> dict[str, Outcome]:
    """Those of the policies that can run."""
    found = simulation.policies.items()
    return {name: each for name, each in found if isinstance(each, Outcome)}


@pytest.mark.parametrize(
    ("name", "lower_bound_s"), [("nopfs-4", 17_408), ("nopfs-4-512", 19_531.25)]
)
def test_lower_bounds_of_cosmoflow(name: str, lower_bound_s: float) -> None:
    found = run(name, "perfect", epochs="2")
    assert found.lower_bound_s == lower_bound_s
    assert outcomes(found)["perfect"].epochs_s == pytest.approx([lower_bound_s] * 2, rel=1e-12)


def test_scenario_1_only_naive_is_slow() -> None:
    found = outcomes(run("nopfs-1"))
    best_s = min(each.total_s for each in found.values())
    # Printed: 1.7. A sample costs 1/c + 1/(t(4)/4) + 1/beta instead of 1/c, which is 1.486.
    assert found.pop("naive").total_s / best_s == pytest.approx(1.486, abs=0.001)
    assert all(each.total_s < 1.03 * best_s for each in found.values())


def test_scenario_4_nopfs_is_near_the_bound_with_the_whole_dataset() -> None:
    simulation = run("nopfs-4-512")
    found = outcomes(simulation)
    assert set(simulation.policies) - set(found) == {"lbann-dynamic", "lbann-preload"}
    assert found["nopfs"].total_s < 1.01 * 5 * simulation.lower_bound_s
    assert found["nopfs"].covered == 1
    staged = found["parallel-staging"]
    assert staged.source_shares["shared"] == 0
    assert staged.covered < 0.82
    assert found["deepio-ordered"].source_shares["shared"] > 0.9
    shares = [found[name].source_shares["shared"] for name in ("frequency-partition", "nopfs")]
    assert shares[0] < shares[1] < found["deepio-ordered"].source_shares["shared"]


@pytest.mark.soak
@pytest.mark.parametrize("name", ["nopfs-2", "nopfs-2-openimages"])
def test_scenario_2_nopfs_is_best_and_waits_for_nothing(name: str) -> None:
    simulation = run(name)
    found = outcomes(simulation)
    nopfs = found["nopfs"]
    assert nopfs.total_s == pytest.approx(found["perfect"].total_s, rel=0.001)
    # But for locality-aware and parallel-staging, which change the batches, none is faster.
    for name in ("staging-buffer", *REAL):
        if name in found and name != "locality-aware":
            assert nopfs.total_s <= found[name].total_s * (1 + 1e-9)
    assert found["parallel-staging"].startup_s > 0
    assert nopfs.startup_s == 0
    assert found["staging-buffer"].source_shares["shared"] == 1
    assert nopfs.source_shares["shared"] < 0.2
    assert found["naive"].total_s > 1.4 * nopfs.total_s


@pytest.mark.soak
def test_scenario_3_lbann_cannot_run_and_staging_never_reads_shared_storage() -> None:
    simulation = run("nopfs-3")
    found = outcomes(simulation)
    assert set(simulation.policies) - set(found) == {"lbann-dynamic", "lbann-preload"}
    assert found["nopfs"].total_s == pytest.approx(found["perfect"].total_s, rel=0.001)
    assert found["parallel-staging"].source_shares["shared"] == 0
    shared = {name: each.source_shares["shared"] for name, each in found.items()}
    assert shared["deepio-ordered"] > 2 * shared["nopfs"]


@pytest.mark.soak
def test_environment_the_bound_is_printed_and_the_staging_buffer_does_not_matter() -> None:
    bound = outcomes(run("nopfs-env", "perfect"))["perfect"].total_s
    assert bound / 3600 == pytest.approx(1.06, abs=0.005)
    nothing = {"ram": "0 B", "disk": "0 B"}
    times = [
        outcomes(run("nopfs-env", "nopfs", staging_buffer=size, **nothing))["nopfs"].total_s
        for size in ("1 GB", "5 GB")
    ]
    assert times[0] == pytest.approx(times[1], rel=0.001)


def test_coordl_misses_what_does_not_fit_and_two_servers_miss_nothing() -> None:
    one, two = (outcomes(run("coordl-ssd", "coordl", nodes=n, files="174304", ram="42 GB"))
                for n in "12")  # fmt: skip
    size = 174304 * 370_000
    later = (one["coordl"].source_bytes["shared"] - size) / 2
    assert later / size == pytest.approx(0.35, abs=0.002)  # printed: 35 %
    assert later == pytest.approx(22.5e9, rel=0.005)  # printed: 225 GB of ten times the files
    assert two["coordl"].source_bytes["shared"] == pytest.approx(size, rel=0.001)
    assert two["coordl"].stall_share < one["coordl"].stall_share
