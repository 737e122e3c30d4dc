"""What the end of a writer of outputs means for what it has open: published, dropped or kept."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import threading

import pytest
from output_client import CREATE, Program, programs
from output_service import Served
from serving import wait_for

from fanstore.outputs.drafts import drafts, watch
from fanstore.outputs.drafts.holders import GRANT_S, Holder, Says, Verdict, judge
from fanstore.outputs.drafts.watch import Process
from fanstore.outputs.model.wire import Answer, Op, Request, Where
from fanstore.outputs.namespace import moving
from fanstore.outputs.namespace.context import Context
from fanstore.outputs.objects import objects

pytest_plugins = ("output_fixtures",)


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
    rename = moving.rename

    async def slow(context: Context, request: Request) -> Answer | None:
        begun.append(request.path)
        await asyncio.sleep(0.3 if request.path == b"old" else 1.5)
        return await rename(context, request)

    monkeypatch.setattr(moving, "rename", slow)
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


def test_written_on_while_its_end_is_under_way(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process that closed it waits for that, and writes a new version."""
    ending = threading.Event()
    end = drafts.Drafts._end

    async def slow(*args: object) -> None:
        ending.set()
        await asyncio.sleep(0.3)
        await end(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(drafts.Drafts, "_end", slow)
    fd = served.client.open(b"new")
    served.client.write(fd, b"first")
    closing = threading.Thread(target=served.client.close, args=(fd,))
    closing.start()
    assert ending.wait(60)
    served.client.close(served.client.open(b"new", os.O_RDWR))
    closing.join()
    assert served.client.read_file(b"new") == b"first"


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
    monkeypatch.setattr("fanstore.outputs.drafts.holders.GRANT_S", 0.1)
    fd = writer.call("open", b"new")
    writer.call("write", fd, b"all")
    writer.call("close_unsaid", fd)
    served.wait_for_count("published", 1)
    assert served.client.read_file(b"new") == b"all"


# What the end of writers means.


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
    class Known(Process):
        def is_ending(self) -> bool:
            return self.pid == ENDING

    known = [
        Holder(Known(state, dead=state in (DEAD, KILLED), killed=state == KILLED), says)
        for says, state in holders
    ]
    assert judge(known) is verdict
    not_waited_for = Verdict.PUBLISH if ENDING in [state for _, state in holders] else verdict
    assert judge(known, waits=False) is not_waited_for


def test_grants() -> None:
    """Each close has used the oldest; a late one may be another thread's, about to be used."""
    one = Holder(Process(1))
    one.granted_s.extend([1.0, 99.9])
    one.closed_one(100.0)
    assert one.may_open(99.8 + GRANT_S) and not one.may_open(99.9 + GRANT_S)
    one.closed_one(100.1)
    assert not one.may_open(100.1)
    one.granted_s.extend([1.0, 2.0])
    one.closed_one(100.2)
    assert not one.granted_s
