"""Whatever ends, stops or breaks among the ranks of a job, the others read right bytes, and end."""

from __future__ import annotations

import random

import pytest
from fault_tools import Ranks, make_ranks, needs_mpi, reader

pytestmark = needs_mpi

PACKS = 6


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Ranks:
    """A dataset that tests only read."""
    chance = random.Random(3)
    files = {f"f{n:02}": chance.randbytes(40_000 + 3_001 * n) for n in range(24)}
    files |= {f"large{n}": chance.randbytes(3_000_000) for n in range(6)}
    return make_ranks(tmp_path_factory.mktemp("ranks"), files, "--partitions", str(PACKS))


@pytest.mark.parametrize("lost", [0, 1])
def test_daemon_killed_between_requests(shared: Ranks, lost: int) -> None:
    with shared.running(3, reader("a", "b")) as run:
        assert run.step("a") == [shared.whole] * 3
        run.kill(lost, "daemon")
        found = run.step("b")
        codes = run.end()
    assert found == [shared.whole] * 3
    assert codes == [125 if rank == lost else 0 for rank in range(3)], run.said()
    run.check_nothing_left()
    for rank in {0, 1, 2} - {lost}:
        assert f"lost: rank {lost}" in run.err(rank)
