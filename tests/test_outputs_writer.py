"""Writers of outputs and the daemon's side of them: what finishes a draft, and what does not."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import random
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from output_client import (
    CREATE,
    Client,
    Program,
    programs,
    request,
    send,
    understood,
)
from serving import make_stage, wait_for

from fanstore._native import lib
from fanstore.dataset import Dataset, open_dataset
from fanstore.outputs import drafts, listener, moving, objects, service, watch
from fanstore.outputs.holders import GRANT_S, Holder, Says, Verdict, judge
from fanstore.outputs.service import Mount, OutputService
from fanstore.outputs.wire import Answer, Op, Request, Where
from fanstore.serve.segment import MountEntry, write_segment


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dataset]:
    stage = make_stage(tmp_path_factory.mktemp("writer"))
    source = stage.source("plain", {"input": b"in", "d/input": b"in d"})
    with open_dataset(stage.dataset(source)) as opened:
        yield opened


class Served:
    """A service over a job directory of a test's own."""

    def __init__(self, directory: Path, dataset: Dataset) -> None:
        self.path = os.fspath(directory)
        prefix = "/somewhere"
        entry = MountEntry(
            prefix=prefix, alias="", skeleton=prefix, index_path=str(dataset.index_path),
            staged_dir=str(dataset.directory), dataset_dir=str(dataset.directory), device=1,
            record_count=int(dataset.header["record_count"]), prefix_made=False,
            places=[int(lib.FAN_PLACE_STAGED)] * dataset.pack_count,
        )  # fmt: skip
        segment = os.path.join(self.path, "segment")
        write_segment(segment, [entry], os.getpid())
        self.service = OutputService(self.path, segment, [Mount(dataset, (prefix.encode(),))])
        self.service.start()
        self.client = Client(self.path)

    def is_there(self, path: bytes) -> bool:
        """Whether something is published."""
        try:
            self.client.lookup(path)
        except FileNotFoundError:
            return False
        return True

    def objects(self) -> list[str]:
        """The real files."""
        return os.listdir(os.path.join(self.path, "objects"))

    def counted(self, what: str) -> int:
        """One of the figures."""
        return int(self.service.figures()[what])

    def wait_for_count(self, what: str, count: int) -> None:
        """Until a figure has come to that."""
        wait_for(lambda: self.counted(what) == count, f"{what} to be {count}")


@pytest.fixture
def served(tmp_path: Path, dataset: Dataset) -> Iterator[Served]:
    made = Served(tmp_path, dataset)
    yield made
    made.service.close()


@pytest.fixture
def writer(served: Served) -> Iterator[Program]:
    with programs(served.path, 1) as made:
        yield made[0]


@pytest.fixture
def pair(served: Served) -> Iterator[list[Program]]:
    with programs(served.path, 2) as made:
        yield made


def test_an_output_is_seen_when_it_is_finished(served: Served, writer: Program) -> None:
    fd = writer.call("open", b"d/new", mode=0o640)
    writer.call("write", fd, b"half")
    assert not served.is_there(b"d/new")
    assert served.client.ask(Op.LIST, b"d").text == b""
    assert writer.call("lookup", b"d/new")["size"] == 4
    writer.call("write", fd, b" and half")
    assert writer.call("close", fd) == "SETTLED"
    attr = served.client.lookup(b"d/new")
    assert attr["size"] == 13
    assert attr["mode"] & 0o777 == 0o640
    assert attr["nlink"] == 1
    assert served.client.read_file(b"d/new") == b"half and half"
    assert b"new" in served.client.ask(Op.LIST, b"d").text
    assert served.counted("published") == 1
    assert served.counted("drafts") == 0


def test_a_killed_writer_publishes_nothing(served: Served, writer: Program) -> None:
    fd = writer.call("open", b"new")
    writer.call("write", fd, b"half")
    writer.kill()
    served.wait_for_count("dropped", 1)
    assert not served.is_there(b"new")
    assert served.objects() == []
    assert served.client.write_file(b"new", b"again") == "SETTLED"
    assert served.client.read_file(b"new") == b"again"


def test_a_killed_writer_leaves_the_version_before(served: Served, writer: Program) -> None:
    served.client.write_file(b"new", b"old")
    for flags in (CREATE, os.O_RDWR):
        with programs(served.path, 1) as (other,):
            other.call("write", other.call("open", b"new", flags), b"half")
            assert served.client.read_file(b"new") == b"old"
            other.kill()
    served.wait_for_count("dropped", 2)
    assert served.client.read_file(b"new") == b"old"


def test_what_is_open_at_a_normal_exit_is_published(served: Served, writer: Program) -> None:
    for name in (b"one", b"two"):
        writer.call("write", writer.call("open", name), name)
    writer.exit()
    served.wait_for_count("published", 2)
    assert served.client.read_file(b"one") == b"one"
    assert served.client.read_file(b"two") == b"two"


def test_an_exit_that_nobody_announced_is_no_end_in_order(served: Served, writer: Program) -> None:
    writer.call("write", writer.call("open", b"new"), b"half")
    writer.exit(leave=False)
    served.wait_for_count("dropped", 1)
    assert not served.is_there(b"new")


def test_a_file_of_two_processes_is_published_once_at_the_last_close(
    served: Served, writer: Program
) -> None:
    fd = writer.call("open", b"new")
    writer.call("write", fd, b"parent ")
    child = writer.fork()
    assert writer.call("close", fd) == "OPEN_YET"
    assert not served.is_there(b"new")
    child.call("write", fd, b"child")
    assert child.call("close", fd) == "SETTLED"
    assert served.client.read_file(b"new") == b"parent child"
    assert served.counted("published") == 1


def test_a_killed_child_whose_parent_has_closed(served: Served, writer: Program) -> None:
    fd = writer.call("open", b"new")
    child = writer.fork()
    assert writer.call("close", fd) == "OPEN_YET"
    child.call("write", fd, b"half")
    child.kill()
    served.wait_for_count("dropped", 1)
    assert not served.is_there(b"new")


def test_a_killed_child_whose_parent_goes_on(served: Served, writer: Program) -> None:
    fd = writer.call("open", b"new")
    child = writer.fork()
    child.call("write", fd, b"the child's, ")
    child.kill()
    writer.call("write", fd, b"and more")
    assert writer.call("close", fd) == "SETTLED"
    assert served.client.read_file(b"new") == b"the child's, and more"


def test_a_killed_parent_whose_child_goes_on(served: Served, pair: list[Program]) -> None:
    """The child, as it is no child of the test's, is played by a process that joined."""
    first, second = pair
    first.call("open", b"new")
    fd = second.call("open", b"new")
    first.kill()
    second.call("write", fd, b"second")
    assert second.call("close", fd) == "SETTLED"
    assert served.client.read_file(b"new") == b"second"


def test_a_child_that_holds_a_file_once_its_parent_is_dead(
    served: Served, pair: list[Program]
) -> None:
    """daemon(3): the parent ends without a word while the child is about to say what it has."""
    parent, child = pair
    parent.call("open", b"new")
    (name,) = served.objects()
    heir = child.call("open_object", int(name, 16))
    parent.kill()
    child.call("say", Op.HOLD)
    child.call("write", heir, b"the child's")
    child.exit()
    served.wait_for_count("published", 1)
    assert served.client.read_file(b"new") == b"the child's"


def test_a_mapping_outlives_its_descriptor(served: Served, writer: Program) -> None:
    """As np.memmap has it."""
    fd = writer.call("open", b"new", os.O_RDWR | os.O_CREAT)
    writer.call("map", fd, 8192)
    assert writer.call("close", fd) == "OPEN_YET"
    writer.call("write_mapped", b"mapped")
    assert not served.is_there(b"new")
    writer.call("unmap")
    served.wait_for_count("published", 1)
    assert served.client.read_file(b"new") == b"mapped" + bytes(8186)


@pytest.mark.parametrize("leave", [True, False])
def test_the_end_of_a_process_with_a_mapping(leave: bool, served: Served, writer: Program) -> None:
    fd = writer.call("open", b"new", os.O_RDWR | os.O_CREAT)
    writer.call("map", fd, 100)
    writer.call("close", fd)
    writer.call("write_mapped", b"mapped")
    if leave:
        writer.exit()
    else:
        writer.kill()
    served.wait_for_count("published" if leave else "dropped", 1)
    assert served.is_there(b"new") is leave


def test_a_program_without_the_shim_inherits_a_file(served: Served, writer: Program) -> None:
    """It says nothing, so that its end ends the file in order."""
    fd = writer.call("open", b"new")
    number = served.client.ask(Op.SETTLE, objects=[1]).where
    assert number is Where.OPEN_YET  # a process that does not hold it makes no difference
    writer.call("say", Op.HAND_ON)
    writer.call("write", fd, b"static")
    writer.exit(leave=False)
    served.wait_for_count("published", 1)
    assert served.client.read_file(b"new") == b"static"


def tells_of_reaped() -> bool:
    """Whether the kernel tells how a process ended of which nothing else is left (Linux 6.15)."""
    pid = os.fork()
    if pid == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    fd = os.pidfd_open(pid)
    try:
        os.waitpid(pid, 0)
        return bool(watch._reaped_status(fd))
    finally:
        os.close(fd)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_program_that_is_killed_before_it_takes_a_file_over(
    served: Served, writer: Program, number: int
) -> None:
    """So is one without the shim. Where the kernel does not tell, it has ended in order."""
    if not tells_of_reaped():
        pytest.skip("only Linux 6.15 and newer tell how a process ended that is gone")
    fd = writer.call("open", b"new")
    writer.call("say", Op.HAND_ON)
    writer.call("write", fd, b"half")
    os.kill(writer.pid, number)
    writer.wait()
    served.wait_for_count("dropped", 1)
    assert not served.is_there(b"new")


def test_a_killed_zombie_is_known(served: Served, writer: Program) -> None:
    """Nobody waits for it yet; its name is free at once."""
    fd = writer.call("open", b"new")
    writer.call("say", Op.HAND_ON)
    writer.call("write", fd, b"half")
    os.kill(writer.pid, signal.SIGKILL)
    served.wait_for_count("dropped", 1)
    writer.wait()
    assert not served.is_there(b"new")


@pytest.mark.parametrize("opened", [True, False])
def test_a_killed_writers_name_is_free_at_once(
    served: Served, writer: Program, opened: bool
) -> None:
    """For whoever has waited for its end."""
    for number in range(50):
        with programs(served.path, 1) as (other,):
            if opened:
                other.call("write", other.call("open", b"new"), b"half")
            else:
                other.call("ask", Op.OPEN, b"new", flags=CREATE, mode=0o644)
            other.kill()
            assert not served.is_there(b"new")
            fd = writer.call("open", b"new", CREATE | os.O_EXCL)
            writer.call("write", fd, b"%d" % number)
            writer.call("close", fd)
            served.client.ask(Op.UNLINK, b"new")


@pytest.fixture
def renames(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Makes renames slow; those that have begun."""
    begun = []
    rename = moving.Moving.rename

    async def slow(self: moving.Moving, request: Request) -> Answer:
        begun.append(request.path)
        await asyncio.sleep(0.3 if request.path == b"old" else 1.5)
        return await rename(self, request)

    monkeypatch.setattr(moving.Moving, "rename", slow)
    return begun


def test_what_a_killed_process_asked_for_comes_first(
    renames: list[bytes], served: Served, writer: Program
) -> None:
    """Whoever has waited for its end sees its rename, and not yet that of another that lives."""
    for name in (b"old", b"other"):
        served.client.write_file(name, b"x")
    with programs(served.path, 1) as (killed,):
        writer.start("ask", Op.RENAME, b"other", b"another")
        killed.start("ask", Op.RENAME, b"old", b"new")
        wait_for(lambda: len(renames) == 2, "the renames")
        assert served.is_there(b"old")
        killed.kill()
        assert served.is_there(b"new") and not served.is_there(b"old")
        assert served.is_there(b"other")


def test_a_process_killed_while_a_copy_is_made_for_it(
    served: Served, writer: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its name is free for whoever has waited for its end, be the copy under way."""
    served.client.write_file(b"new", b"old")
    copies = []
    copy = objects.ObjectStore.copy

    async def slow(*args: object) -> object:
        copies.append(1)
        await asyncio.sleep(0.3)
        return await copy(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(objects.ObjectStore, "copy", slow)
    with programs(served.path, 1) as (other,):
        other.start("open", b"new", os.O_RDWR)
        wait_for(lambda: copies, "the copy")
        with pytest.raises(OSError) as raised:
            writer.call("open", b"new", os.O_RDWR)
        assert raised.value.errno == errno.ETXTBSY
        other.kill()
        writer.call("close", writer.call("open", b"new", os.O_RDWR))
    assert served.client.read_file(b"new") == b"old"


def test_a_program_that_takes_a_file_over_holds_it(served: Served, writer: Program) -> None:
    fd = writer.call("open", b"new")
    writer.call("say", Op.HAND_ON)
    writer.call("say", Op.HOLD)
    writer.call("write", fd, b"half")
    writer.kill()
    served.wait_for_count("dropped", 1)
    assert not served.is_there(b"new")


def test_an_unsaid_close_is_seen(
    served: Served, writer: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fanstore.outputs.holders.GRANT_S", 0.1)
    fd = writer.call("open", b"new")
    writer.call("write", fd, b"all")
    writer.call("close_unsaid", fd)
    served.wait_for_count("published", 1)
    assert served.client.read_file(b"new") == b"all"


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
    timer = threading.Timer(0.1, lambda: os.close(os.open(told.text, os.O_CREAT, 0o600)))
    timer.start()
    fd = pair[1].call("open", b"x.lock", os.O_RDWR | os.O_CREAT)
    pair[1].call("write", fd, b"joined")
    assert os.stat(told.text).st_size == 6
    timer.join()


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


def test_settle_without_objects_looks_at_all(served: Served, writer: Program) -> None:
    fds = [writer.call("open", name) for name in (b"one", b"two")]
    writer.call("close_unsaid", fds[0])
    assert writer.call("say", Op.SETTLE, []) == "OPEN_YET"
    assert served.is_there(b"one")
    assert not served.is_there(b"two")


def test_reopening_without_writing_changes_nothing(
    served: Served, writer: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drafts, "_CLOCK_STEP_NS", 0)
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
        patched.setattr(objects, "copy_bytes", fill)
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
        objects.copy_bytes(read.fileno(), write.fileno())
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


def test_without_inotify_and_pidfds(
    tmp_path: Path, dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An old kernel, or a user that has used up what there is: it takes longer."""

    def refuse(*_: object) -> None:
        raise OSError(errno.EMFILE, "none left")

    monkeypatch.setattr(os, "pidfd_open", refuse)
    monkeypatch.setattr(drafts, "ClosedFiles", refuse)
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
    monkeypatch.setattr(drafts, "Processes", lambda loop, on_end, _: processes(loop, on_end, 1))
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
        served.service.start_flush().result(30.0)
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
        served.service.start_flush().result(30.0)
        figures = served.service.account(os.fspath(tmp_path / "unstaged"))
        assert figures["unfinished"] == ["/somewhere/late"]
        late.start("close", fd)
        served.service._do(asyncio.sleep(0.1), 10.0)
        served.service.close()
        assert served.service.figures()["published"] == 0


def test_a_service_that_was_never_started_ends(tmp_path: Path, dataset: Dataset) -> None:
    Served(tmp_path, dataset).service.close()
    segment = os.path.join(tmp_path, "segment")
    os.unlink(tmp_path / "outputs")
    made = OutputService(os.fspath(tmp_path), segment, [Mount(dataset, (b"/somewhere",))])
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


# What the end of writers means.


def holder(says: Says, dead: bool = False) -> Holder:
    return Holder(says, dead)


HOLDS, CLOSED, LEAVES, HANDS_ON = Says.HOLDS, Says.CLOSED, Says.LEAVES, Says.HANDS_ON
ALIVE, ENDING, DEAD, KILLED = range(4)


@pytest.mark.parametrize(
    ("holders", "verdict"),
    [
        ([(HOLDS, ALIVE)], Verdict.PUBLISH),
        ([(HOLDS, DEAD)], Verdict.DROP),
        ([(HOLDS, ENDING)], Verdict.WAIT),
        ([(HOLDS, DEAD), (HOLDS, ALIVE)], Verdict.PUBLISH),
        ([(HOLDS, DEAD), (CLOSED, ALIVE)], Verdict.DROP),
        ([(HOLDS, DEAD), (LEAVES, DEAD)], Verdict.DROP),
        ([(CLOSED, ALIVE)], Verdict.PUBLISH),
        ([(CLOSED, DEAD)], Verdict.DROP),
        ([(CLOSED, ENDING)], Verdict.WAIT),
        ([(CLOSED, DEAD), (LEAVES, DEAD)], Verdict.PUBLISH),
        ([(LEAVES, DEAD)], Verdict.PUBLISH),
        ([(LEAVES, ALIVE)], Verdict.PUBLISH),
        ([(LEAVES, KILLED)], Verdict.PUBLISH),
        ([(HANDS_ON, ALIVE)], Verdict.PUBLISH),
        ([(HANDS_ON, DEAD)], Verdict.PUBLISH),
        ([(HANDS_ON, ENDING)], Verdict.WAIT),
        ([(HANDS_ON, KILLED)], Verdict.DROP),
        ([(HANDS_ON, KILLED), (CLOSED, ALIVE)], Verdict.DROP),
        ([(HANDS_ON, ENDING), (CLOSED, ALIVE)], Verdict.WAIT),
        ([(HANDS_ON, DEAD), (HOLDS, DEAD)], Verdict.DROP),
        ([(HANDS_ON, KILLED), (HANDS_ON, DEAD)], Verdict.DROP),
        ([(CLOSED, DEAD), (HANDS_ON, DEAD)], Verdict.PUBLISH),
        ([(CLOSED, DEAD), (HANDS_ON, KILLED)], Verdict.DROP),
        ([], Verdict.DROP),
    ],
)
def test_verdicts(holders: list[tuple[Says, int]], verdict: Verdict) -> None:
    states = dict(enumerate(holders))
    table = {
        pid: Holder(says, state in (DEAD, KILLED), state == KILLED)
        for pid, (says, state) in states.items()
    }
    assert judge(table, lambda pid: states[pid][1] == ENDING) is verdict


def test_grants() -> None:
    """Each close has used the oldest; a late one may be another thread's, about to be used."""
    one = Holder()
    one.granted_s.extend([1.0, 99.9])
    one.closed_one(100.0)
    assert one.opens_until_s(100.0) == 99.9 + GRANT_S
    one.closed_one(100.1)
    assert one.opens_until_s(100.1) < 100.1
    one.granted_s.extend([1.0, 2.0])
    one.closed_one(100.2)
    assert not one.granted_s
