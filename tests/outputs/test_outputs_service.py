"""The service that answers writers of outputs: what comes over its wire, and its end."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import random
import socket
import threading
from pathlib import Path

import pytest
from output_client import programs, request, send, understood
from output_service import NoStageOut, Served

from fanstore.dataset import Dataset
from fanstore.outputs.model.wire import Op, Where
from fanstore.outputs.service import listener, service
from fanstore.outputs.service.service import SOCKET, Mount, OutputService
from fanstore.serve.protocol import bind

pytest_plugins = ("output_fixtures",)


# The wire.


@pytest.mark.parametrize(
    "data",
    [
        request(99),
        request(0),
        request(Op.LOOKUP, magic=1),
        request(Op.LOOKUP, view=1),
        request(Op.RENAME, b"a", b"b", other_view=0xFFFF),
        request(Op.LOOKUP, b"a", path_bytes=0xFFFFFFFF),
        request(Op.LOOKUP, b"a", other_bytes=4097),
        request(Op.SETTLE, object_count=513),
        request(Op.LOOKUP, b"a\0b"),
        request(Op.SYMLINK, b"a", b"\0"),
        request(Op.LOOKUP, b"a") + b"more",
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" + bytes(100),
        b"\xff" * 20000,
    ],
)
def test_hostile_requests(data: bytes, served: Served) -> None:
    with pytest.raises(OSError) as refused:
        understood(send(served.path, data))
    assert refused.value.errno == errno.EINVAL
    assert served.client.write_file(b"new", b"x") == "SETTLED"


def test_random_requests(served: Served) -> None:
    """None of them ends the service; each gets one answer, or the connection's end."""
    generator = random.Random(7)
    whole = request(Op.RENAME, b"d/../x/./y", b"../../z", [1, 2, 3])
    for _ in range(400):
        data = bytearray(whole)
        for _ in range(generator.randrange(1, 4)):
            data[generator.randrange(4, len(data))] = generator.randrange(256)
        data[4:6] = generator.choice(list(Op)).to_bytes(2, "little")
        data[6:10] = bytes(4)  # the only mount there is
        cut = generator.choice([len(data)] * 9 + [50])
        answer = send(served.path, bytes(data[:cut]), hang_up=True)
        with contextlib.suppress(OSError):
            assert not answer or understood(answer)
    assert served.client.write_file(b"d/fine", b"x") == "SETTLED"


def test_who_hangs_up_or_hangs_is_dropped(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "PATIENCE_S", 0.2)
    with socket.socket(socket.AF_UNIX) as gone, socket.socket(socket.AF_UNIX) as silent:
        for stream in (gone, silent):
            stream.connect(os.path.join(served.path, "outputs"))
            stream.sendall(request(Op.LOOKUP, b"a")[:50])
        gone.close()
        assert not served.is_there(b"a")
        silent.settimeout(30.0)
        assert silent.recv(100) == b""


def test_another_user_is_refused(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    own = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: own + 1)
    with pytest.raises(PermissionError):
        served.client.ask(Op.LOOKUP, b"a")


def test_many_at_once(served: Served) -> None:
    streams = [socket.socket(socket.AF_UNIX) for _ in range(200)]
    try:
        for stream in streams:
            stream.settimeout(30.0)
            stream.connect(os.path.join(served.path, "outputs"))
        assert not served.is_there(b"a")
        for number, stream in enumerate(streams):
            stream.sendall(request(Op.MKDIR, b"made%d" % number, mode=0o700))
        assert [understood(stream.recv(4096)).where for stream in streams] == [Where.DONE] * 200
        assert served.client.lookup(b"made199")["nlink"] == 2
    finally:
        for stream in streams:
            stream.close()


def test_more_than_are_served_at_once_wait(
    tmp_path: Path, dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "_CONNECTIONS_MOST", 4)
    served = Served(tmp_path, dataset)
    try:
        with socket.socket(socket.AF_UNIX) as last:
            idle = [socket.socket(socket.AF_UNIX) for _ in range(4)]
            for stream in (*idle, last):
                stream.connect(os.path.join(served.path, "outputs"))
            last.sendall(request(Op.MKDIR, b"made", mode=0o700))
            last.settimeout(0.3)
            with pytest.raises(TimeoutError):
                last.recv(4096)
            idle.pop().close()
            last.settimeout(30.0)
            assert understood(last.recv(4096)).where is Where.DONE
            for stream in idle:
                stream.close()
    finally:
        served.service.close()


def test_a_long_listing_comes_whole(served: Served) -> None:
    names = {b"%0200d" % number for number in range(600)}
    served.client.ask(Op.MKDIR, b"long", mode=0o700)
    for name in names:
        served.client.ask(Op.MKDIR, b"long/" + name, mode=0o700)
    text = served.client.ask(Op.LIST, b"long").text
    assert len(text) == 600 * 216
    assert {text[at + 16 : at + 216] for at in range(0, len(text), 216)} == names


# The end.


def test_the_end_with_open_drafts(tmp_path: Path, dataset: Dataset) -> None:
    served = Served(tmp_path, dataset)
    with programs(served.path, 2) as (still, exits):
        still.call("open", b"still open")
        exits.call("write", exits.call("open", b"exits"), b"x")
        exits.exit()
        served.service.submit(served.service.flush()).result(30.0)
        figures = served.service.figures()
        assert figures["published"] == 1
        assert figures["unfinished"] == ["/somewhere/still open"]
        served.service.close()
        assert not [t for t in threading.enumerate() if t.name.startswith("fanstore-outputs")]
        with pytest.raises(OSError):
            still.call("lookup", b"exits")
    served.service.close()


def test_after_the_account_nothing_is_published(tmp_path: Path, dataset: Dataset) -> None:
    served = Served(tmp_path, dataset)
    with programs(served.path, 1) as (late,):
        fd = late.call("open", b"late")
        late.call("write", fd, b"x")
        served.service.submit(served.service.flush()).result(30.0)
        account = served.service.account(os.fspath(tmp_path / "unstaged"))
        figures = served.service.submit(account).result(30.0)
        assert figures["unfinished"] == ["/somewhere/late"]
        late.start("close", fd)
        served.service._do(asyncio.sleep(0.1))
        served.service.close()
        assert served.service.figures()["published"] == 0


def test_a_service_that_was_never_started_ends(tmp_path: Path, dataset: Dataset) -> None:
    Served(tmp_path, dataset).service.close()
    segment = os.path.join(tmp_path, "segment")
    os.unlink(tmp_path / "outputs")
    made = OutputService(
        os.fspath(tmp_path),
        segment,
        bind(os.fspath(tmp_path), SOCKET),
        [Mount(dataset, (b"/somewhere",))],
        NoStageOut,
    )
    with pytest.raises(OSError):
        made.start()  # the objects' directory is there already
    made.close()
    OutputService.close(made)


def test_a_deep_job_directory(tmp_path: Path, dataset: Dataset) -> None:
    deep = tmp_path.joinpath(*["deep" * 10] * 5)
    deep.mkdir(parents=True)
    served = Served(deep, dataset)
    try:
        assert served.client.write_file(b"new", b"x") == "SETTLED"
    finally:
        served.service.close()
