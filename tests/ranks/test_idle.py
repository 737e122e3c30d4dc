"""The node thread of an idle job sleeps: other ranks ring it (csrc/transport/bells.h)."""

from __future__ import annotations

from pathlib import Path

import inprocess
from mpiexec import needs_ranks
from ranks import make_rank_stage

pytestmark = needs_ranks

# The thread's sleeps double in length up to 0.6 s, so the count begins two seconds after the last
# message. Without rings it wakes 250 times in three seconds.
MOST_WAKE_UPS = 30
COUNT = """
cat "$FANSTORE_MOUNT_PREFIX"/* >/dev/null
daemon=$(sed -n 's/.*"daemon_pid": \\([0-9]*\\).*/\\1/p' "$FANSTORE_JOB_DIR/job.json")
thread=$(dirname "$(grep -l fanstore-node /proc/$daemon/task/*/comm)")
count() { sed -n 's/^voluntary_ctxt_switches:[^0-9]*//p' "$thread/status"; }
sleep 2; before=$(count); sleep 3; echo "$(($(count) - before)) wake-ups"
"""


def test_an_idle_node_thread_hardly_wakes(tmp_path: Path) -> None:
    stage = make_rank_stage(tmp_path, 2)
    source = stage.source(files={f"f{n}": b"x" * 5000 for n in range(8)})
    dataset = tmp_path / "data"
    inprocess.call("prepare", "--quiet", source, dataset, "--partitions", "2")
    done = stage.run_ranks(2, dataset, "sh", "-c", COUNT, options=["--replicas", "1"])
    counts = [int(line.split()[0]) for line in done.stdout.splitlines() if "wake-ups" in line]
    assert len(counts) == 2
    assert max(counts) <= MOST_WAKE_UPS, counts
