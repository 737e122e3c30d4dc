"""One file for the traces of all ranks, with what was waited for of other ranks."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from mpiexec import needs_ranks
from ranks import RankStage, make_rank_stage

from fanstore.trace import read_trace
from fanstore.trace.tables import SOURCES

pytestmark = needs_ranks

READ_TWICE = (
    "import os\n"
    "root = os.environ['FANSTORE_MOUNT_PREFIX']\n"
    "for name in sorted(os.listdir(root)) * 2:\n"
    "    open(os.path.join(root, name), 'rb').read()\n"
)


@pytest.fixture
def stage(tmp_path: Path) -> RankStage:
    return make_rank_stage(tmp_path, 2)


@pytest.mark.soak
def test_the_traces_of_all_ranks_become_one_file(stage: RankStage) -> None:
    dataset = stage.dataset(
        stage.source(files={f"f{n:02}": bytes([n]) * 100_000 for n in range(20)})
    )
    file = stage.path / "kept.trace"
    file.write_text("an older one")
    stage.run_ranks(2, dataset, sys.executable, "-c", READ_TWICE, options=("--trace", str(file)))
    trace = read_trace(file)
    assert trace.problem == ""
    assert [rank["rank"] for rank in trace.ranks] == [0, 1]
    assert len({rank["job_id"] for rank in trace.ranks}) == 2
    assert trace.total("opens") == len(trace.opens) == 80
    for rank in range(2):
        mine = trace.processes["rank"] == rank
        stalls = trace.counts["stalls"][mine]
        by_source = {name: stalls[:, at] for at, name in enumerate(SOURCES)}
        assert trace.counts["opens"][mine].sum() == 40
        assert by_source["rank"]["count"].sum() > 0
        assert by_source["rank"]["bytes"].sum() + by_source["cache"]["bytes"].sum() == (
            trace.counts["remote_bytes"][mine].sum()
        )
        waits = trace.stalls[mine[trace.stalls["process"]]]
        from_ranks = waits[waits["source"] == SOURCES.index("rank")]
        assert len(from_ranks) == by_source["rank"]["count"].sum()
        assert set(from_ranks["file"]) <= set(trace.opens["file"])
    assert list(stage.path.glob("kept.trace.*")) == []
    stage.assert_clean()
