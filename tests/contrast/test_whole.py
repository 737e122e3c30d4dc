"""Not contrasts: that the cases do go through FanStore, and several datasets in one job."""

from __future__ import annotations

import subprocess

import pytest
from arena import SELF, Arena, fanstore_command
from harness import run_side

pytestmark = pytest.mark.skipif(SELF, reason="there is no FanStore in a comparison with itself")


def test_reads_are_counted(arena: Arena) -> None:
    side = arena.mounted("store")
    before = arena.counters("store")
    outcome = run_side(
        arena, side, ["sh", "-c", 'cat "$T/bin/big.bin" | wc -c; ls "$T" > /dev/null']
    )
    after = arena.counters("store")
    assert outcome.stdout.strip() == b"3145745"
    assert after["opens"] == before["opens"] + 1
    assert after["read_bytes"] == before["read_bytes"] + 3145745


def test_no_content_lies_under_the_prefix(arena: Arena) -> None:
    """What the prefix holds for the kernel is directories, and a note for those who see them."""
    arena.mounted("store")
    files = [path for path in arena.prefix("store").rglob("*") if not path.is_dir()]
    assert files == [arena.prefix("store") / "SERVED-BY-FANSTORE.txt"]


def test_two_datasets_in_one_job(arena: Arena) -> None:
    first, second = arena.base / "mtone", arena.base / "mttwo"
    options = ["--dataset", str(arena.dataset("store")), "--mount", str(first)]
    options += ["--dataset", str(arena.dataset("lz4")), "--mount", str(second)]
    script = f"""
        cmp {first}/bin/big.bin {second}/bin/big.bin && diff -r {first}/text {second}/text &&
        cd {first}/text && cat ../../{second.name}/text/x && cd ../../{second.name}/hard && cat one
    """
    done = subprocess.run(
        [*fanstore_command(), "run", *options, "--quiet", "--", "bash", "-c", script],
        capture_output=True,
        timeout=120,
        env=arena.plain.env,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, b"xone content, three names\n"), done.stderr
    assert not first.exists() and not second.exists()
