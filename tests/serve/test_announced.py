"""What loaders announce to the daemon: what is wrong is refused, and what is right is followed."""

from __future__ import annotations

import array
import fcntl
import json
import os
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from serving import Stage, make_stage, wait_for

from fanstore.foresight import announced
from fanstore.foresight.sink import Sink
from fanstore.in_job.teller import Teller
from fanstore.job.orders import JobOrders
from fanstore.node.job_directory import JobDirectory
from fanstore.staging.base import StagingFolder

SEQUENTIAL = {"kind": "SequentialSampler", "samples": 20, "batch": 4, "drop_last": False}
RIGHT = {
    "loader": 0, "dataset": 0, "sampler": SEQUENTIAL, "workers": 0, "prefetch_factor": 2,
    "in_order": True, "files_per_sample": 1,
}  # fmt: skip
READ = (
    "import os, sys\n"
    "root = os.environ['FANSTORE_MOUNT_PREFIX']\n"
    "for number in map(int, sys.argv[1:]):\n"
    "    open(os.path.join(root, f'f{number:02}'), 'rb').read()\n"
)


class Served:
    """A job that stays, and what its daemon says of orders."""

    def __init__(self, stage: Stage) -> None:
        dataset = str(stage.dataset())
        where = ("--dataset", dataset, "--mount", str(stage.mount))
        self.stage = stage
        job = json.loads(stage.call("start", *where, "--json").stdout)
        self.directory, self.daemon = job["job_directory"], job["daemon_pid"]
        self.teller = Teller(self.directory)

    def figures(self) -> dict[str, Any]:
        return self.stage.status()["order"]

    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.daemon}/fd"))

    def paths(self) -> bytes:
        return b"".join(b"%s/f%02d\0" % (os.fsencode(self.stage.mount), n) for n in range(20))

    def read(self, *numbers: int) -> None:
        words = [str(number) for number in numbers]
        self.stage.call("exec", "--", sys.executable, "-c", READ, *words)

    def send(self, data: bytes, fds: list[int] | None = None) -> None:
        """Sends one message, whatever it is."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as link:
            directory = os.open(self.directory, os.O_RDONLY)
            link.connect(f"/proc/self/fd/{directory}/order")
            os.close(directory)
            rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds or []))
            if data or fds:
                link.sendmsg([data], [rights] if fds else [])


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    stage = make_stage(tmp_path)
    served = Served(stage)
    yield served
    stage.call("stop")
    assert stage.leftovers() == []


def test_opens_are_followed(served: Served) -> None:
    served.teller.tell(RIGHT, {"paths": [served.paths()]})
    wait_for(lambda: served.figures()["epochs"] == 1, "the first epoch is known")
    served.read(*range(20))
    wait_for(lambda: served.figures()["predicted"] == 20, "all opens were expected")
    served.teller.tell(RIGHT, {})
    served.read(*range(12))
    wait_for(lambda: served.figures()["predicted"] == 32, "the next epoch was expected")
    figures = served.figures()
    assert (figures["epochs"], figures["strange"], figures["refused"]) == (2, 0, {})
    assert figures["samplers"] == {"SequentialSampler": 32}


def test_paths_are_found_however_they_are_spelled(served: Served) -> None:
    mount = str(served.stage.mount)
    odd = [f"{mount}//./f{number:02}" for number in range(17)]
    odd += [f"{mount}/../mount/f17", f"{mount}x/f18", "/f19"]  # not followed: not known
    served.teller.tell(RIGHT, {"paths": [os.fsencode("\0".join(odd) + "\0")]})
    served.read(*range(20))
    wait_for(lambda: served.figures()["predicted"] == 17, "those that are found were expected")
    assert served.figures()["strange"] == 0


@pytest.fixture
def sealed() -> Iterator[int]:
    fd = os.memfd_create("sealed", os.MFD_ALLOW_SEALING)
    os.write(fd, b"/a\0/b\0")
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
    yield fd
    os.close(fd)


def test_what_makes_no_sense_is_refused(served: Served, sealed: int) -> None:
    served.teller.tell(RIGHT, {"paths": [served.paths()]})
    wait_for(lambda: served.figures()["epochs"] == 1, "the first epoch is known")
    before = served.descriptors()
    unsealed = os.memfd_create("unsealed")
    os.write(unsealed, b"/a\0")
    pipe = os.pipe()
    folder = os.open("/", os.O_RDONLY)
    wrong: list[tuple[bytes, list[int]]] = [
        (b"", []), (b"garbage", []), (b"[]", []), (b"[" * 100_000, []), (b"\xff\xfe", []),
        (b'{"loader": 1e999}', []), (b"x" * 130_000, []), (b"{}", [sealed]),
    ]  # fmt: skip
    for name, value in (
        ("loader", -7), ("loader", "0"), ("dataset", 2**70), ("dataset", 9), ("workers", -1),
        ("prefetch_factor", 0), ("in_order", 3), ("sampler", [1]), ("sampler", {"kind": "Odd"}),
        ("sampler", {**SEQUENTIAL, "samples": 21}), ("sampler", {**SEQUENTIAL, "batch": 0}),
        ("failed", ["?"]), ("parts", "paths"), ("parts", ["paths"]),
    ):  # fmt: skip
        wrong.append((json.dumps({**RIGHT, name: value}).encode(), []))
    for name, fds in (
        ("paths", [unsealed]), ("paths", [pipe[0]]), ("paths", [folder]), ("what", [sealed]),
        ("indices", [sealed]),
    ):  # fmt: skip
        message = {**RIGHT, "dataset": 1, "parts": [name]}
        wrong.append((json.dumps(message).encode(), fds))
    message = {**RIGHT, "dataset": 1, "parts": ["paths"], "files_per_sample": 3}
    wrong.append((json.dumps(message).encode(), [sealed]))
    wrong.append((json.dumps({**RIGHT, "parts": ["paths"] * 4}).encode(), [sealed] * 40))
    for data, fds in wrong:
        served.send(data, fds)
    for fd in (unsealed, *pipe, folder):
        os.close(fd)
    served.teller.tell(RIGHT, {})
    wait_for(lambda: served.figures()["epochs"] == 2, "what is right is heard after all that")
    figures = served.figures()
    assert sum(figures["refused"].values()) >= 8  # so many reasons are kept
    wait_for(lambda: served.descriptors() <= before, "what came along is closed")


def piece(place: str, *indices: int) -> tuple[dict[str, Any], dict[str, Any]]:
    sampler = {
        "kind": "Listed", "name": "Own, as drawn", "batch": 2, "drop_last": False, "place": place,
    }  # fmt: skip
    message = {**RIGHT, "sampler": sampler, "workers": 2}
    return message, {"indices": [array.array("q", indices).tobytes()]}


def test_an_order_that_grows_is_followed(served: Served) -> None:
    message, parts = piece("first", 7, 3)
    served.teller.tell(message, {**parts, "paths": [served.paths()]})
    for at in (12, 11), (0, 3), (7, 19):  # some of them again
        served.teller.tell(*piece("more", *at))
    served.read(7, 3, 12, 11, 0, 3, 7, 19)
    wait_for(lambda: served.figures()["predicted"] == 8, "all opens were expected")
    figures = served.figures()
    assert (figures["epochs"], figures["strange"], figures["broken"]) == (1, 0, 0)
    assert figures["samplers"] == {"Own, as drawn": 8}
    served.teller.tell(*piece("more", *range(20)))
    served.teller.tell(*piece("instead", 5, 6))
    wait_for(lambda: served.figures()["broken"] == 1, "what was told instead is heard")
    served.read(5, 6)
    wait_for(lambda: served.figures()["predicted"] == 10, "what was told instead is expected")
    figures = served.figures()
    assert (figures["epochs"], figures["broken"], figures["refused"]) == (1, 1, {})


def test_more_of_what_was_refused_is_left_alone(served: Served) -> None:
    served.teller.tell(*piece("more", 1, 2))
    served.teller.tell(RIGHT, {"paths": [served.paths()]})
    wait_for(lambda: served.figures()["epochs"] == 1, "what is right is heard")
    assert served.figures()["refused"] == {}
    served.teller.tell(*piece("more", 1, 20))
    served.teller.tell(*piece("next", 1))
    wait_for(lambda: len(served.figures()["refused"]) == 2, "what makes no sense is refused")


def test_a_wrong_order_is_given_up(served: Served) -> None:
    """Of twenty files, 400 samples: they are read from the end of the order on."""
    each = served.paths().split(b"\0")[:-1]
    many = b"".join((path + b"\0") * 20 for path in each)
    sampler = {**SEQUENTIAL, "samples": 400, "batch": 1}
    served.teller.tell({**RIGHT, "sampler": sampler}, {"paths": [many]})
    served.read(*range(19, 0, -1))
    served.read(*range(19, 0, -1))
    wait_for(lambda: served.figures()["broken"] == 1, "the order is given up")
    assert served.figures()["predicted"] < 10


def test_orders_can_be_left_alone(tmp_path: Path) -> None:
    stage = make_stage(tmp_path)
    dataset = str(stage.dataset())
    code = "import os; print(sorted(os.listdir(os.environ['FANSTORE_JOB_DIR'])))"
    where = ("--dataset", dataset, "--mount", str(stage.mount))
    done = stage.call("run", *where, "--", sys.executable, "-c", code, FANSTORE_ORDER="off")
    assert "'in_job'" not in done.stdout
    assert "'order'" not in done.stdout


def test_the_end_burns_no_processor_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The wait for connections ends at once."""
    monkeypatch.chdir(tmp_path)  # the path of a socket is short
    monkeypatch.setattr(announced, "Lanes", lambda _: SimpleNamespace(noted=lambda: 0))
    begun_s = time.process_time()
    for _ in range(4):
        JobOrders(announced.Announced(".", []), Sink(), JobDirectory(StagingFolder("."))).stop()
        Path("order").unlink(missing_ok=True)
    assert time.process_time() - begun_s < 0.5  # and not 1 s
