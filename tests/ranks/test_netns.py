"""Ranks in network namespaces of their own, joined by a slow link; as root."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median_low

import pytest
from fault_tools import Ranks, make_ranks, reader
from mpiexec import KEEP, needs_hydra, needs_ranks

DELAY_S = 0.001
NAMES = [f"fanstore-{os.getpid()}-{rank}" for rank in range(2)]
HOSTS = [f"10.99.0.{1 + rank}" for rank in range(2)]
# MPI must not find out that it runs on one machine.
OVER_TCP = {"UCX_TLS": "tcp,self", "FI_PROVIDER": "tcp", "MPIR_CVAR_NOLOCAL": "1"}

# What mpiexec takes for ssh: [options] HOST COMMAND...
_ENTER = """#!/bin/sh
while [ "${{1#-}}" != "$1" ]; do shift; done
case $1 in {first}) name={names[0]};; *) name={names[1]};; esac
shift
exec ip netns exec $name unshare -u sh -c "hostname $name; $*"
"""

pytestmark = [
    needs_ranks,
    needs_hydra,
    pytest.mark.skipif(os.getuid() != 0, reason="network namespaces: not root"),
    pytest.mark.skipif(
        not all(map(shutil.which, ("ip", "tc", "unshare"))),
        reason="network namespaces need ip, tc (iproute2) and unshare",
    ),
]


def call(*command: str) -> bool:
    done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    return done.returncode == 0


def join_by_netem() -> bool:
    """A veth pair with a delay at either end; false where the kernel has no netem."""
    inside = [("ip", "netns", "exec", name) for name in NAMES]
    made = call(
        "ip", "link", "add", "eth0", "netns", NAMES[0], "type", "veth",
        "peer", "name", "eth0", "netns", NAMES[1],
    )  # fmt: skip
    delay = ("netem", "delay", f"{1000 * DELAY_S:g}ms", "rate", "1gbit")
    slow = [call(*enter, "tc", "qdisc", "add", "dev", "eth0", "root", *delay) for enter in inside]
    if made and not all(slow):
        call("ip", "-n", NAMES[0], "link", "del", "eth0")
    return made and all(slow)


@contextlib.contextmanager
def joined() -> Iterator[None]:
    """The namespaces with a slow link between them."""
    if join_by_netem():
        yield
        return
    if not os.path.exists("/dev/net/tun"):
        pytest.skip("a slow link needs netem or /dev/net/tun")
    relay = str(Path(__file__).resolve().parents[1] / "support" / "slow_link.py")
    with subprocess.Popen(
        [sys.executable, relay, *NAMES, str(DELAY_S)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as link:  # fmt: skip
        assert link.stdout is not None
        assert link.stdout.readline() == b"ready\n"
        yield
        assert link.stdin is not None
        link.stdin.close()


@pytest.fixture
def namespaces() -> Iterator[None]:
    try:
        if not all(call("ip", "netns", "add", name) for name in NAMES):
            pytest.skip("network namespaces cannot be made here")
        with joined():
            for name, host in zip(NAMES, HOSTS, strict=True):
                assert call("ip", "-n", name, "addr", "add", f"{host}/24", "dev", "eth0")
                assert call("ip", "-n", name, "link", "set", "eth0", "up")
                assert call("ip", "-n", name, "link", "set", "lo", "up")
            yield
    finally:
        for name in NAMES:
            call("ip", "netns", "del", name)


@pytest.fixture
def ranks(tmp_path: Path) -> Ranks:
    chance = random.Random(5)
    files = {f"f{n:02}": chance.randbytes(4_000) for n in range(40)}
    return make_ranks(tmp_path, files, "--partitions", "4")


@pytest.mark.soak
def test_latencies_show_the_delay(namespaces: None, ranks: Ranks, tmp_path: Path) -> None:
    """A request and its reply cross the link: at least twice its delay. They do, because ranks in
    network namespaces of their own are no neighbours, although their files are in reach."""
    enter = tmp_path / "enter"
    enter.write_text(_ENTER.format(first=HOSTS[0], names=NAMES))
    enter.chmod(0o755)
    launcher = [
        *KEEP, "-localhost", HOSTS[0], "-hosts", ",".join(HOSTS), "-ppn", "1",
        "-bootstrap", "ssh", "-bootstrap-exec", str(enter),
    ]  # fmt: skip
    before = ("ip", "netns", "exec", NAMES[0])
    with ranks.running(
        2, reader("a", "b"), launcher=launcher, before=before, FANSTORE_DEADLINE_S="5",
        FANSTORE_PEER_WAIT_S="20", FANSTORE_NEIGHBOURS="on", **OVER_TCP,
    ) as run:  # fmt: skip
        assert run.step("a") == [ranks.whole] * 2
        found = [ranks.status(rank) for rank in range(2)]
        run.step("b", names={})
        assert run.end() == [0, 0], run.said()
    run.check_nothing_left()
    for status in found:
        bins = status["node"]["latency_bins"]
        assert sum(bins) == 20
        waits_us = [1 << power for power, count in enumerate(bins) for _ in range(count)]
        assert min(waits_us) >= 1024, bins  # the bin of 2 ms begins at 2048, that below at 1024
        assert median_low(waits_us) >= 2048, bins
