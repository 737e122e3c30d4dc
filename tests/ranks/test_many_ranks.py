"""As many ranks as one machine bears: they start, read all of each other's files, and end."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from pathlib import Path

import inprocess
import pytest
from mpiexec import needs_ranks
from ranks import make_rank_stage

pytestmark = needs_ranks

FILES, FILE_BYTES = 128, 20_000
LIMIT_S = 600.0
# Of one rank: whether it reads what was packed; then the descriptors and KiB of its own memory
# that its daemon has.
READ = """
cat "$FANSTORE_MOUNT_PREFIX"/* | sha256sum
daemon=$(sed -n 's/.*"daemon_pid": \\([0-9]*\\).*/\\1/p' "$FANSTORE_JOB_DIR/job.json")
echo "rank $FANSTORE_RANK: $(ls /proc/$daemon/fd | wc -l) descriptors," \\
    "$(sed -n 's/^RssAnon:[^0-9]*//p' /proc/$daemon/status)"
"""


@pytest.mark.parametrize("world_size", [6, 64])
@pytest.mark.soak
def test_many_ranks_start_serve_and_end(tmp_path: Path, world_size: int) -> None:
    stage = make_rank_stage(tmp_path, world_size)
    files = {f"f{n:03}": os.urandom(FILE_BYTES) for n in range(FILES)}
    source = stage.source(files=files)
    dataset = tmp_path / "data"
    inprocess.call("prepare", "--quiet", source, dataset, "--partitions", str(world_size))
    options = ["--replicas", "1", "--cache-bytes", "16M"]
    argv = stage.run_argv(world_size, [dataset], ["sh", "-c", READ], options)
    with stage.launched(argv) as process:
        try:
            out, err = process.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            pytest.fail(f"{world_size} ranks did not end in {LIMIT_S:g} s")
    assert process.returncode == 0, err
    digest = hashlib.sha256(b"".join(files[name] for name in sorted(files))).hexdigest()
    assert out.count(digest) == world_size, out + err
    assert f"{world_size} ranks: {world_size * FILES:,} files opened" in err
    found = [int(n) for n in re.findall(r"(\d+) descriptors", out)]
    assert len(found) == world_size
    assert max(found) <= 64 + world_size, out  # what the daemon warns of (serve/daemon.py)
    own_kib = [int(n) for n in re.findall(r"(\d+) kB", out)]
    assert max(own_kib) < 128 << 10, out
    stage.assert_clean()
