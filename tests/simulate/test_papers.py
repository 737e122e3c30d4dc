"""What the papers print of their simulations, where a scenario of ours can be held to it."""

from __future__ import annotations

import pytest

from fanstore.study.simulate.engine import simulate
from fanstore.study.simulate.library import changed, load
from fanstore.study.simulate.results import PolicyOutcome, Simulation
from fanstore.study.simulate.scenario import scenario_from

REAL = ("deepio-ordered", "lbann-dynamic", "locality-aware", "coordl", "nopfs",
        "frequency-partition")  # fmt: skip


def run(name: str, *policies: str, **changes: str) -> Simulation:
    file, table = load(name)
    return simulate(scenario_from(file, changed(file, table, changes)), policies)


def outcomes(simulation: Simulation) -> dict[str, PolicyOutcome]:
    """Those of the policies that can run."""
    found = simulation.policies.items()
    return {name: each for name, each in found if isinstance(each, PolicyOutcome)}


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
    # DeepIO's ordered mode reads as slowly in the first of ten epochs, in which nothing is cached.
    assert found.pop("deepio-ordered").total_s / best_s == pytest.approx(1.05, abs=0.002)
    assert all(each.total_s < 1.03 * best_s for each in found.values())
    # Close to the lower bound, of which the last batches that are not full are not a part.
    assert best_s == pytest.approx(10 * run("nopfs-1", "perfect").lower_bound_s, rel=0.002)


@pytest.mark.soak
@pytest.mark.parametrize("name", ["nopfs-4", "nopfs-4-512"])
def test_scenario_4_nopfs_is_near_the_bound_with_the_whole_dataset(name: str) -> None:
    simulation = run(name)
    found = outcomes(simulation)
    assert set(simulation.policies) - set(found) == {"lbann-dynamic", "lbann-preload", "close"}
    assert found["nopfs"].total_s < 1.01 * 5 * simulation.lower_bound_s
    assert found["nopfs"].covered == 1
    staged = found["parallel-staging"]
    assert staged.source_shares["shared"] == 0
    assert staged.covered == pytest.approx({"nopfs-4": 0.916, "nopfs-4-512": 0.816}[name], abs=6e-4)
    assert found["deepio-ordered"].source_shares["shared"] > 0.9
    shares = [found[name].source_shares["shared"] for name in ("frequency-partition", "nopfs")]
    assert shares[0] < shares[1] < found["deepio-ordered"].source_shares["shared"]


def test_scenario_4_nopfs_scales_with_the_cluster() -> None:
    times_s = {
        nodes: outcomes(run("nopfs-4-512", "nopfs", nodes=nodes))["nopfs"].total_s * int(nodes)
        for nodes in ("4", "8", "16")
    }
    assert times_s["4"] == pytest.approx(times_s["8"], rel=0.01)
    assert times_s["16"] == pytest.approx(times_s["8"], rel=0.01)


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
    # NoPFS uses all storage classes, LBANN's data store memory alone. (Memory of another node is
    # faster than the own disk, and so that is read where the memory of all does not suffice.)
    in_memory = simulation.dataset_bytes <= 4 * 120e9
    assert (nopfs.source_bytes["disk"] + nopfs.source_bytes["remote disk"] == 0) == in_memory
    assert in_memory == ("lbann-dynamic" in found)
    for lbann in (each for policy, each in found.items() if policy.startswith("lbann")):
        assert lbann.source_bytes["disk"] + lbann.source_bytes["remote disk"] == 0


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


def environment() -> dict[tuple[int, int], PolicyOutcome]:
    """Figure 9 with a hundredth of the files and of the storage: by GB of ram and of disk."""
    return {
        (ram, disk): outcomes(
            run("nopfs-env", "nopfs", files="141971", ram=f"{ram}0MB", disk=f"{disk}0MB")
        )["nopfs"]
        for ram in (32, 64, 128, 256, 512)
        for disk in (128, 256, 512, 1024)
    }


@pytest.mark.soak
def test_environment_storage_of_one_kind_makes_up_for_the_other() -> None:
    found = environment()
    shared = {sizes: each.source_shares["shared"] for sizes, each in found.items()}
    # Most of both is best, for more of either is never worse, and often better.
    for (ram, disk), share in shared.items():
        assert all(
            share <= other + 1e-9 for (r, d), other in shared.items() if r <= ram and d <= disk
        )
    # Different combinations give the same; with most memory the disk matters less, and the other
    # way round.
    assert shared[512, 128] == pytest.approx(shared[128, 512], abs=0.01)
    assert shared[32, 128] - shared[512, 1024] > 0.3
    of_disk = {ram: shared[ram, 128] - shared[ram, 1024] for ram in (32, 512)}
    of_ram = {disk: shared[32, disk] - shared[512, disk] for disk in (128, 1024)}
    assert of_disk[512] < 0.5 * of_disk[32]
    assert of_ram[1024] < 0.5 * of_ram[128]
    # The paper's times differ from one to the other; ours do not, as docs/simulator.md says.
    times_s = [each.total_s for each in found.values()]
    assert max(times_s) == pytest.approx(min(times_s), rel=0.001)


def test_coordl_misses_what_does_not_fit_and_two_servers_miss_nothing() -> None:
    one, two = (outcomes(run("coordl-ssd", "coordl", nodes=n, files="174304", ram="42 GB"))
                for n in "12")  # fmt: skip
    size = 174304 * 370_000
    later = (one["coordl"].source_bytes["shared"] - size) / 2
    assert later / size == pytest.approx(0.35, abs=0.002)  # printed: 35 %
    assert later == pytest.approx(22.5e9, rel=0.005)  # printed: 225 GB of ten times the files
    assert two["coordl"].source_bytes["shared"] == pytest.approx(size, rel=0.001)
    assert two["coordl"].stall_share < one["coordl"].stall_share


# Totals in seconds that a thesis on clairvoyant prefetching prints. The second scenario is large:
# the test takes a part of its files and of its storage.
THESIS = {
    "thesis-1": (1, {"perfect": 7.30, "naive": 27.8, "staging-buffer": 10.2, "nopfs": 7.78}),
    "thesis-2": (20, {"perfect": 3826, "naive": 15131, "staging-buffer": 4982, "nopfs": 3836}),
}


@pytest.mark.parametrize("name", THESIS)
def test_totals_of_the_thesis(name: str) -> None:
    part, printed = THESIS[name]
    small = {
        "files": str(1_281_167 // part),
        "ram": f"{120_000 // part} MB",
        "disk": f"{900_000 // part} MB",
    }
    found = outcomes(run(name, *printed, **(small if part > 1 else {})))
    totals = {policy: part * each.total_s for policy, each in found.items()}
    assert sorted(totals, key=lambda policy: totals[policy]) == sorted(
        printed, key=lambda policy: printed[policy]
    )
    for policy, total_s in totals.items():
        assert total_s == pytest.approx(printed[policy], rel=0.03), policy
