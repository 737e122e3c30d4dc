"""Watchers of four ranks see what readers count, and which ranks are gone."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from fault_tools import RankRun, Ranks, make_ranks, reader
from mpiexec import needs_ranks
from prometheus_client.parser import text_string_to_metric_families
from serving import LIMIT_S, wait_for

from fanstore.job.jobs import FoundJob, watch_ranks
from fanstore.messages.job import AbsentRank
from fanstore.messages.watched import RankRates, WatchedRank
from fanstore.watch.rates import difference

pytestmark = needs_ranks

SIZE = 4
FILES = {f"f{n:02}": bytes([n]) * (10_000 + 1_000 * n) for n in range(12)}


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> Ranks:
    return make_ranks(tmp_path_factory.mktemp("watched"), FILES, "--partitions", "4")


def job_of(ranks: Ranks, rank: int) -> FoundJob:
    (path,) = ranks.local(rank).glob(".fanstore-*/jobs/*")
    return FoundJob(str(path), True)


def watched(ranks: Ranks, rank: int) -> list[WatchedRank | AbsentRank]:
    """The figures of all ranks, which answer when the machine lets them."""
    rows: list[WatchedRank | AbsentRank] = []

    def have_answered() -> bool:
        rows[:] = watch_ranks(job_of(ranks, rank), 30.0)
        return all(isinstance(row, WatchedRank) for row in rows)

    wait_for(have_answered, "all ranks to answer")
    return rows


@pytest.fixture
def run(ranks: Ranks) -> Iterator[RankRun]:
    with ranks.running(SIZE, reader("one", "two", "end"), "--metrics-port", "0") as run:
        run.step("one")
        yield run
        run.tell("two", {})
        run.tell("end", {})
        run.end()


def call(ranks: Ranks, rank: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    """fanstore with the local directory of a rank."""
    return call_in(ranks.local(rank), ranks, *arguments)


def call_in(local: Path, ranks: Ranks, *arguments: str) -> subprocess.CompletedProcess[str]:
    """fanstore with a local directory."""
    return subprocess.run(
        [sys.executable, "-m", "fanstore", *arguments, "--local-dir", str(local)],
        env=ranks.stage.env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=LIMIT_S,
    )  # fmt: skip


@pytest.mark.soak
def test_differences_are_what_each_rank_read(ranks: Ranks) -> None:
    names = {rank: sorted(FILES)[: 3 * (rank + 1)] for rank in range(SIZE)}
    with ranks.running(SIZE, reader("one", "two", "three")) as run:
        run.step("one")
        before = watched(ranks, 2)
        run.step("two", names=names)
        rows = difference(before, watched(ranks, 2))
        for rank, row in enumerate(rows):
            assert isinstance(row, RankRates) and row.rank == rank
            opens, read = len(names[rank]), sum(len(FILES[n]) for n in names[rank])
            for each in (row, *(p for p in row.programs if p.active)):
                assert round((each.opens_per_s or 0) * each.span_s) == opens
                assert round((each.read_bytes_per_s or 0) * each.span_s) == read
            assert sum(p.active for p in row.programs) == 1
        run.tell("three", {})
        assert run.end() == [0] * SIZE, run.said()


def test_all_ranks_from_any_of_them(ranks: Ranks, run: RankRun) -> None:
    done = call(ranks, 3, "status", "--all-ranks", "--json")
    said = json.loads(done.stdout)["ranks"]
    assert [(each["rank"], each["state"]) for each in said] == [(r, "serving") for r in range(SIZE)]
    assert [each["counters"]["opens"] for each in said] == [len(FILES)] * SIZE
    text = call(ranks, 0, "status", "--all-ranks").stdout
    assert all(f"rank {rank} of {SIZE} on {os.uname().nodename}" in text for rank in range(SIZE))
    done = call(ranks, 1, "top", "--once", "--json", "--interval", "0.2", "--sort", "rank")
    assert [each["rank"] for each in json.loads(done.stdout)["ranks"]] == list(range(SIZE))
    done = call(ranks, 1, "top", "--interval", "0.2", "--this-rank")
    assert f"1 {os.uname().nodename}" in done.stdout and done.stdout.startswith("job ")


@pytest.mark.soak
def test_ranks_that_share_a_local_directory_are_one_job(ranks: Ranks, tmp_path: Path) -> None:
    def asked(*arguments: str) -> subprocess.CompletedProcess[str]:
        return call_in(tmp_path, ranks, *arguments)

    where = {"FANSTORE_LOCAL_DIR": str(tmp_path)}
    with ranks.running(2, reader("one", "end"), **where) as run:
        run.step("one")
        said = json.loads(asked("status", "--all-ranks", "--json").stdout)["ranks"]
        assert [(each["rank"], each["state"]) for each in said] == [(0, "serving"), (1, "serving")]
        done = asked("top", "--once", "--json", "--interval", "0.2")
        assert sorted(each["rank"] for each in json.loads(done.stdout)["ranks"]) == [0, 1]
        assert "several jobs" in asked("top", "--this-rank").stderr
        with ranks.running(2, reader("one", "end"), **where) as other:
            other.step("one")
            assert "several jobs" in asked("status", "--all-ranks").stderr
            other.tell("end", {})
            other.end()
        run.tell("end", {})
        run.end()


def states(ranks: Ranks, rank: int) -> list[str]:
    return [row.state for row in watch_ranks(job_of(ranks, rank), 0.2)]


@pytest.mark.soak
def test_a_stopped_daemon_is_named_and_comes_back(ranks: Ranks, run: RankRun) -> None:
    serving, silent = ["serving"] * SIZE, ["serving", "not answering", "serving", "serving"]
    run.kill(1, "daemon", number=signal.SIGSTOP)
    try:
        wait_for(lambda: states(ranks, 0) == silent, "rank 1 to be called silent")
        done = call(ranks, 0, "status", "--all-ranks")
        assert done.returncode == 1
        assert f"rank 1 of {SIZE} on {os.uname().nodename}: not answering" in done.stdout
    finally:
        os.kill(run.daemon(1), signal.SIGCONT)
    wait_for(lambda: states(ranks, 0) == serving, "rank 1 to answer again")


def test_a_killed_daemon_is_named(ranks: Ranks, run: RankRun) -> None:
    run.kill(2, "daemon", "command")
    others = [True, True, False, True]
    wait_for(
        lambda: [state == "serving" for state in states(ranks, 0)] == others,
        "rank 2 to be missed, and no other",
    )
    done = call(ranks, 0, "status", "--all-ranks")
    assert done.returncode == 1
    assert re.search(rf"rank 2 of {SIZE} on \S+: (lost|not answering)", done.stdout), done.stdout


def scraped(ranks: Ranks, rank: int) -> str:
    """What Prometheus gets at a rank's local socket, which its owner alone may use."""
    path = os.path.join(job_of(ranks, rank).directory, "live")
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    connection = http.client.HTTPConnection("job", timeout=LIMIT_S)
    connection.sock = socket.socket(socket.AF_UNIX)
    folder = os.open(os.path.dirname(path), os.O_PATH)
    try:
        connection.sock.connect(f"/proc/self/fd/{folder}/live")
    finally:
        os.close(folder)
    connection.request("GET", "/metrics")
    return connection.getresponse().read().decode()


def test_metrics_are_prometheus_text_and_true(ranks: Ranks, run: RankRun) -> None:
    values = {}
    for rank in range(SIZE):
        for family in text_string_to_metric_families(scraped(ranks, rank)):
            for sample in family.samples:
                assert sample.labels["rank"] == str(rank)
                assert sample.labels["node"] == os.uname().nodename
                values.setdefault(sample.name, []).append((sample.labels, sample.value))
    assert {labels["job_id"] for labels, _ in values["fanstore_ranks"]} == {job_of(ranks, 0).job_id}
    assert [value for _, value in values["fanstore_opens_total"]] == [len(FILES)] * SIZE
    total = sum(map(len, FILES.values()))
    assert [value for _, value in values["fanstore_read_bytes_total"]] == [total] * SIZE
    waits = sum(value for _, value in values["fanstore_stall_seconds_count"])
    ends = [v for labels, v in values["fanstore_stall_seconds_bucket"] if labels["le"] == "+Inf"]
    assert sum(ends) == waits


@pytest.mark.soak
def test_each_rank_of_a_host_has_a_port(ranks: Ranks, run: RankRun) -> None:
    urls = [ranks.status(rank)["metrics"] for rank in range(SIZE)]
    assert len(set(urls)) == SIZE
    for rank, url in enumerate(urls):
        assert url.startswith("http://127.0.0.1:")
        connection = http.client.HTTPConnection(url.split("/")[2], timeout=LIMIT_S)
        connection.request("GET", "/metrics")
        assert f'rank="{rank}"' in connection.getresponse().read().decode()
        connection.request("GET", "/figures")
        assert connection.getresponse().status == 404


@pytest.mark.soak
def test_a_port_that_is_taken_ends_the_job_before_it_starts(ranks: Ranks) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        with ranks.running(SIZE, ["true"], "--metrics-port", port) as run:
            assert any(run.end())
            said = run.said()
    assert f"metrics at 127.0.0.1 port {port} (--metrics-port): Address already in use" in said
    assert sum("Address already in use" in run.err(rank) for rank in range(SIZE)) == 1
    run.check_nothing_left()
