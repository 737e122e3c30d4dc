"""Mappings of large files of other ranks, by need: right whatever becomes of the server, each byte
once a node, and nothing is left of it."""

from __future__ import annotations

import os
import random
import selectors
import socket
import sys
from pathlib import Path

import inprocess
import pytest
from fault_tools import Ranks, make_ranks
from map_faults import map_servers
from mpiexec import needs_ranks
from ranks import assert_all_ok, make_rank_stage, total
from serving import wait_for

from fanstore.job import maps
from fanstore.job.maps import problem

pytestmark = [
    needs_ranks,
    pytest.mark.skipif(bool(problem()), reason=f"no map server here: {problem()}"),
]

MIB = 1 << 20
LARGE_BYTES = 20 * MIB + 777
PROGRAM = Path(__file__).parent.parent / "support" / "map_faults.py"


def test_each_byte_once_a_node(tmp_path: Path) -> None:
    source, dataset = tmp_path / "source", tmp_path / "dataset"
    source.mkdir()
    (source / "large").write_bytes(random.Random(1).randbytes(3 * LARGE_BYTES))
    inprocess.call("prepare", "--quiet", source, dataset, "--partitions", "1")
    tasks = {
        "touches": [8, 100], "note#1": ["random"], "touches#2": [2, 4000], "note#3": ["all"]
    }  # fmt: skip
    said = make_rank_stage(tmp_path).tasks(2, [dataset], tasks, source=str(source))
    assert_all_ok(said)
    at_random, in_all = (total(said, label, "node", "fetched_bytes") for label in ("random", "all"))
    # 64 KiB a touch; more if what is left of a window is read in smaller parts
    assert 0 < at_random <= 100 * (128 << 10)
    assert 2 * LARGE_BYTES < in_all <= 3 * LARGE_BYTES + MIB


@pytest.fixture
def ranks(tmp_path: Path) -> Ranks:
    data = random.Random(2).randbytes(LARGE_BYTES)
    made = make_ranks(tmp_path, {"large": data}, "--partitions", "1")
    (tmp_path / "large").write_bytes(data)
    return made


def servers(path: Path) -> list[int]:
    """The map servers of jobs below a path."""
    return map_servers(str(path))


@pytest.mark.parametrize(
    "fault",
    ["killed", "terminated", "stopped", "suspended",
     pytest.param("stopped_at_random", marks=pytest.mark.soak)],
)  # fmt: skip
def test_the_server_is(ranks: Ranks, tmp_path: Path, fault: str) -> None:
    command = [sys.executable, str(PROGRAM), fault, str(tmp_path / "large")]
    with ranks.running(2, command) as run:
        assert run.end() == [0, 0], run.said()
    run.check_nothing_left()
    wait_for(lambda: not servers(tmp_path), "the end of the map server")


def test_a_server_that_cannot_be_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The daemon goes on, and programs do not wait."""
    monkeypatch.setattr(maps, "maps_path", lambda: tmp_path / "nothing")
    server = maps.MapServer(str(tmp_path), "preload", 0)
    with selectors.DefaultSelector() as selector, program(tmp_path) as waiting:
        server.register(selector)
        [(key, _)] = selector.select(30)
        key.data()
        assert not selector.get_map()
        with pytest.raises(ConnectionResetError):
            waiting.recv(1)
    assert "fanstore: no map server: " in capfd.readouterr().err
    with pytest.raises(ConnectionRefusedError):
        program(tmp_path)
    server.close()


def program(directory: Path) -> socket.socket:
    link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        link.connect(str(directory / maps.SOCKET))
    except OSError:
        link.close()
        raise
    return link


# In a user namespace that allows no further one.
WITHOUT = (
    "unshare", "--user", "--map-root-user", "sh", "-c",
    'echo 0 >/proc/sys/user/max_user_namespaces && exec "$@"', "sh",
)  # fmt: skip


def test_no_mount_is_allowed(ranks: Ranks, tmp_path: Path) -> None:
    """Then it is mapped where the shared file system has it."""
    program = PROGRAM.with_name("mapping_reader.py")
    pack = ranks.dataset / "pack-00000.fsp"
    command = [sys.executable, str(program), str(tmp_path / "large"), str(pack)]
    with ranks.running(2, command, before=WITHOUT) as run:
        assert run.end() == [0, 0], run.said()
    run.check_nothing_left()


@pytest.mark.parametrize(("rank", "codes"), [(0, [125, 0]), (1, [0, 125])])
def test_a_daemon_dies(ranks: Ranks, tmp_path: Path, rank: int, codes: list[int]) -> None:
    """That of the file's owner, or that of the program: its map server goes on until the wrapper
    ends."""
    command = [sys.executable, str(PROGRAM), "daemon_dies", str(tmp_path / "large")]
    with ranks.running(2, command) as run:
        wait_for((tmp_path / "large-mapped").exists, "the mapping")
        assert servers(tmp_path) != []
        run.kill(rank, "daemon")
        (tmp_path / "large-dead").touch()
        assert run.end() == codes, run.said()
    run.check_nothing_left()
    assert (tmp_path / "large-right").exists()
    wait_for(lambda: not servers(tmp_path), "the end of the map server")


def test_an_original_that_changes(tmp_path: Path) -> None:
    stage, source = make_rank_stage(tmp_path), tmp_path / "source"
    source.mkdir()
    large = source / "large"
    large.write_bytes(random.Random(3).randbytes(LARGE_BYTES))
    os.utime(large, (1e9, 1e9))
    command = (sys.executable, str(PROGRAM), "changed", str(large))
    options = ("--stage", "lazy", "--local-bytes", "1M")
    stage.run_ranks(2, source, *command, options=options)
    stage.assert_clean()


def test_a_rank_is_killed(ranks: Ranks, tmp_path: Path) -> None:
    command = [sys.executable, str(PROGRAM), "daemon_dies", str(tmp_path / "large")]
    with ranks.running(2, command) as run:
        wait_for((tmp_path / "large-mapped").exists, "the mapping")
        run.kill(1, "daemon", "wrapper", "command")
        wait_for(lambda: not servers(tmp_path), "the end of the map server")
        assert run.end()[0] == 0, run.said()
    run.check_nothing_left(killed=(1,))
