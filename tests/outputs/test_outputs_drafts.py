"""Drafts of outputs: who may write one, what keeps it, and how ends are seen where means lack."""

from __future__ import annotations

import asyncio
import errno
import os
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest
from namespace_fakes import FakeStore
from output_client import CREATE, Program, open_told, programs
from output_service import Served
from serving import wait_for

from fanstore.dataset import Dataset
from fanstore.outputs.drafts import drafts
from fanstore.outputs.model.entries import Place
from fanstore.outputs.model.wire import Op, Where
from fanstore.outputs.objects import files, objects

pytest_plugins = ("output_fixtures",)


def test_two_writers(served: Served, pair: list[Program]) -> None:
    first, second = pair
    fd = first.call("open", b"new")
    first.call("write", fd, b"first")
    for flags in (CREATE, os.O_WRONLY, os.O_RDWR):
        with pytest.raises(OSError) as refused:
            second.call("open", b"new", flags)
        assert refused.value.errno in (errno.ETXTBSY, errno.ENOENT)
    with pytest.raises(OSError) as refused:
        second.call("open", b"new")
    assert refused.value.errno == errno.ETXTBSY
    with pytest.raises(FileNotFoundError):
        second.call("open", b"new", os.O_RDONLY)
    first.call("close", fd)
    fd = second.call("open", b"new", os.O_WRONLY | os.O_APPEND)
    second.call("write", fd, b" second")
    assert served.client.read_file(b"new") == b"first"
    assert second.call("close", fd) == "SETTLED"
    assert served.client.read_file(b"new") == b"first second"


def test_an_empty_file_may_have_several_writers(served: Served, pair: list[Program]) -> None:
    """Lock files: all who open one have the same."""
    first, second = pair
    fds = [program.call("open", b"x.lock", os.O_RDWR | os.O_CREAT) for program in pair]
    assert len(served.objects()) == 1
    first.call("write", fds[0], b"held")
    assert second.call("lookup", b"x.lock")["size"] == 4
    assert first.call("close", fds[0]) == "OPEN_YET"
    assert second.call("close", fds[1]) == "SETTLED"
    assert served.counted("published") == 1
    assert served.client.read_file(b"x.lock") == b"held"


def test_who_joins_waits_for_the_file(served: Served, pair: list[Program]) -> None:
    """The first was allowed to make it and has not done so yet."""
    told = pair[0].call("ask", Op.OPEN, b"x.lock", flags=os.O_RDWR | os.O_CREAT, mode=0o600)
    assert told.where is Where.CREATE
    timer = threading.Timer(0.1, lambda: os.close(open_told(told, os.O_CREAT)))
    timer.start()
    fd = pair[1].call("open", b"x.lock", os.O_RDWR | os.O_CREAT)
    pair[1].call("write", fd, b"joined")
    assert os.stat(told.text).st_size == 6
    timer.join()


def test_who_has_the_number_of_a_dead_writer_is_not_let_in(tmp_path: Path) -> None:
    """It would go on with half of what another process wrote."""

    async def work() -> None:
        store: Any = FakeStore(tmp_path, 0)
        made = drafts.Drafts(store, 0)
        with subprocess.Popen(["sleep", "60"]) as writer:
            made.begin(Place(0, b"", b"new"), 1, writer.pid)
            (tmp_path / "1").write_text("half")
            assert await made.join(1, writer.pid)
            writer.kill()
        assert not await made.join(1, writer.pid)
        made.close()

    asyncio.run(work())


def test_an_open_that_is_to_come_keeps_a_draft(served: Served, writer: Program) -> None:
    """Its file is there and nobody has it open, which is no sign of an end."""
    served.client.write_file(b"new", b"old")
    told = writer.call("ask", Op.OPEN, b"new", flags=os.O_RDWR)
    assert told.where is Where.EXISTING
    for _ in range(3):
        assert served.client.read_file(b"new") == b"old"
    fd = os.open(told.text, os.O_RDWR)
    os.write(fd, b"new")
    os.close(fd)
    assert served.counted("drafts") == 1
    told = writer.call("ask", Op.SETTLE, objects=[told.attr["object"]])
    assert told.where is Where.SETTLED
    assert served.client.read_file(b"new") == b"new"


def test_two_opens_of_one_process(served: Served, writer: Program) -> None:
    fds = [writer.call("open", b"new", os.O_WRONLY | os.O_CREAT) for _ in range(2)]
    assert writer.call("close", fds[0]) == "OPEN_YET"
    writer.call("write", fds[1], b"second")
    assert writer.call("close", fds[1]) == "SETTLED"
    assert served.client.read_file(b"new") == b"second"


def test_an_open_that_failed_gives_its_name_back(served: Served, pair: list[Program]) -> None:
    told = pair[0].call("ask", Op.OPEN, b"new", flags=CREATE | os.O_EXCL, mode=0o644)
    pair[0].call("ask", Op.ABANDON, objects=[told.attr["object"]])
    assert served.counted("drafts") == 0
    fd = pair[1].call("open", b"new", CREATE | os.O_EXCL)
    told = pair[0].call("ask", Op.OPEN, b"new", flags=os.O_WRONLY | os.O_CREAT)
    pair[0].call("ask", Op.ABANDON, objects=[told.attr["object"]])
    pair[1].call("write", fd, b"other")
    assert pair[1].call("close", fd) == "SETTLED"


def test_who_was_allowed_and_died_gives_its_name_back(served: Served, writer: Program) -> None:
    writer.call("ask", Op.OPEN, b"new", flags=CREATE, mode=0o644)
    writer.kill()
    served.wait_for_count("drafts", 0)
    assert served.client.write_file(b"new", b"x") == "SETTLED"


def test_an_unlinked_draft_that_may_yet_be_made_is_counted_once(
    served: Served, writer: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder of its object goes with the last one, which others may be."""
    left: list[int] = []
    monkeypatch.setattr(objects.ObjectStore, "_leave", lambda _, folder: left.append(folder))
    monkeypatch.setattr(drafts, "GRANT_S", 0.1)
    told = writer.call("ask", Op.OPEN, b"new", flags=CREATE, mode=0o644)
    writer.call("ask", Op.UNLINK, b"new")
    os.close(open_told(told, os.O_CREAT))
    wait_for(lambda: not served.objects(), "what came late to go")
    assert len(left) == 1


def test_settle_without_objects_looks_at_all(served: Served, writer: Program) -> None:
    fds = [writer.call("open", name) for name in (b"one", b"two")]
    writer.call("close_unsaid", fds[0])
    assert writer.call("say", Op.SETTLE, []) == "OPEN_YET"
    assert served.is_there(b"one")
    assert not served.is_there(b"two")


def test_reopening_without_writing_changes_nothing(
    served: Served, writer: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(objects, "_CLOCK_STEP_NS", 0)
    served.client.write_file(b"new", b"old")
    before = served.client.lookup(b"new")
    fd = writer.call("open", b"new", os.O_RDWR)
    assert writer.call("close", fd) == "SETTLED"
    assert served.client.lookup(b"new") == before
    fd = writer.call("open", b"new", os.O_RDWR)
    writer.call("write", fd, b"new")
    writer.call("close", fd)
    assert served.client.lookup(b"new")["object"] != before["object"]
    assert served.client.read_file(b"new") == b"new"
    assert len(served.objects()) == 1


def test_a_full_disk_at_a_reopen(
    served: Served, writer: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fill(*_: object) -> None:
        raise OSError(errno.ENOSPC, "full")

    served.client.write_file(b"new", b"old")
    with monkeypatch.context() as patched:
        patched.setattr(files, "copy_bytes", fill)
        with pytest.raises(OSError) as refused:
            writer.call("open", b"new", os.O_RDWR)
    assert refused.value.errno == errno.ENOSPC
    assert len(served.objects()) == 1
    assert served.client.read_file(b"new") == b"old"
    assert writer.call("close", writer.call("open", b"new", os.O_RDWR)) == "SETTLED"


def test_copies_keep_holes(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    with source.open("wb") as stream:
        stream.write(b"begin")
        stream.seek(8 << 20)
        stream.write(b"middle")
        stream.truncate(16 << 20)
    with source.open("rb") as read, target.open("wb") as write:
        files.copy_bytes(read.fileno(), write.fileno())
    assert source.read_bytes() == target.read_bytes()
    assert target.stat().st_blocks == source.stat().st_blocks


def test_without_leases(served: Served, writer: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then what its holders say counts."""
    monkeypatch.setattr(drafts, "is_written", lambda path: os.stat(path) and None)
    fd = writer.call("open", b"new")
    child = writer.fork()
    assert writer.call("close", fd) == "OPEN_YET"
    child.call("write", fd, b"child")
    assert child.call("close", fd) == "SETTLED"
    writer.call("open", b"killed")
    writer.call("write", writer.call("open", b"left"), b"left")
    writer.call("say", Op.LEAVE, [3])
    assert not served.is_there(b"left")
    writer.kill()
    served.wait_for_count("drafts", 0)
    assert served.is_there(b"left")
    assert not served.is_there(b"killed")


def test_without_pidfds(tmp_path: Path, dataset: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    """An old kernel, or a user that has used up what there is: it takes longer."""

    def refuse(*_: object) -> None:
        raise OSError(errno.EMFILE, "none left")

    monkeypatch.setattr(os, "pidfd_open", refuse)
    served = Served(tmp_path, dataset)
    try:
        with programs(served.path, 3) as (killed, mapper, leaver):
            killed.call("open", b"killed")
            fd = mapper.call("open", b"mapped", os.O_RDWR | os.O_CREAT)
            mapper.call("map", fd, 10)
            assert mapper.call("close", fd) == "OPEN_YET"
            leaver.call("open", b"left")
            killed.kill()
            mapper.call("unmap")
            leaver.exit()
            served.wait_for_count("drafts", 0)
        assert not served.is_there(b"killed")
        assert served.is_there(b"mapped")
        assert served.is_there(b"left")
    finally:
        served.service.close()


def test_without_descriptors_to_spare(
    tmp_path: Path, dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Processes beyond the service's share are polled; their ends are seen all the same."""
    processes = drafts.Processes
    monkeypatch.setattr(drafts, "Processes", lambda on_end, _: processes(on_end, 1))
    served = Served(tmp_path, dataset)
    try:
        with programs(served.path, 3) as made:
            for number, program in enumerate(made):
                program.call("open", b"%d" % number)
            made[0].kill()
            made[1].exit()
            made[2].kill()
            served.wait_for_count("drafts", 0)
        assert served.is_there(b"1")
        assert served.counted("published") == 1
    finally:
        served.service.close()


def test_many_writers_one_after_the_other(served: Served) -> None:
    """Those that have finished are watched no longer than there is room for."""
    before = len(os.listdir("/proc/self/fd"))
    for number in range(50):
        with programs(served.path, 1) as (writer,):
            for name in (b"a%d" % number, b"b%d" % number):
                assert writer.call("write_file", name, b"x") == "SETTLED"
            fd = writer.call("open", b"killed")
            writer.call("write", fd, b"x")
    served.wait_for_count("dropped", 50)
    assert served.counted("published") == 100
    wait_for(lambda: len(os.listdir("/proc/self/fd")) <= before + 1, "pidfds to be closed")
    with programs(served.path, 40) as made:
        for number, writer in enumerate(made):
            writer.call("write_file", b"c%d" % number, b"x")
        assert len(os.listdir("/proc/self/fd")) <= before + 40 + 33
