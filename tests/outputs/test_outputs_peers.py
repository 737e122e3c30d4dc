"""Calls between ranks: answers, errors, order, length, ranks that are silent or gone."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from output_mail import Net
from until import until

from fanstore.outputs.model.entries import Attr, Entry, failure
from fanstore.rank_calls.connected import PIECE_BYTES, ConnectedPeers, Joiner, RankGone, pieces_of

LIMIT_S = 30.0
QUICK_S = 0.2  # a deadline to pass


def run(program: Callable[[Net], Awaitable[None]], count: int, deadline_s: float = 30.0) -> None:
    """A program of several ranks in a loop of its own."""

    async def main() -> None:
        async with Net(count, deadline_s) as net:
            await asyncio.wait_for(program(net), LIMIT_S)

    asyncio.run(main())


def test_results_and_arguments_arrive_as_they_are() -> None:
    entry = Entry(7, 12, Attr(0o100644, 1, 2, 3, 8, 4, 5, 6), b"\xff")
    sent = (entry, b"a/\xfe", None, [1, (2, 3)], {"x": b"\0"})

    async def program(net: Net) -> None:
        for peers in net.peers:
            peers.serve("echo", lambda rank, *args, own=peers.rank: (own, rank, args))
        for caller in net.peers:
            for rank in range(4):
                assert await caller.call(rank, "echo", *sent) == (rank, caller.rank, sent)

    run(program, 4)


@pytest.mark.parametrize("rank", [0, 1], ids=["own", "other"])
def test_coroutines_answer_too(rank: int) -> None:
    async def program(net: Net) -> None:
        async def slow(sender: int, value: int) -> int:
            await asyncio.sleep(0.01)
            return value + sender

        net.peers[rank].serve("slow", slow)
        assert await asyncio.gather(*(net.peers[0].call(rank, "slow", n) for n in range(50))) == [
            *range(50)
        ]

    run(program, 2)


@pytest.mark.parametrize("rank", [0, 1], ids=["own", "other"])
def test_an_oserror_arrives_with_all_it_says(rank: int) -> None:
    async def program(net: Net) -> None:
        def refuse(_: int, name: bytes) -> None:
            raise failure(errno.EEXIST, name)

        net.peers[rank].serve("refuse", refuse)
        with pytest.raises(FileExistsError) as caught:
            await net.peers[0].call(rank, "refuse", b"x/\xff")
        assert (caught.value.errno, caught.value.filename) == (errno.EEXIST, b"x/\xff")

    run(program, 2)


def test_what_nobody_foresaw_is_eio_and_told(capsys: pytest.CaptureFixture[str]) -> None:
    async def program(net: Net) -> None:
        net.peers[1].serve("divide", lambda _, n: 1 // n)
        net.peers[1].serve("odd", lambda _: lambda: None)  # an answer that cannot be sent
        for name, args in (("divide", (0,)), ("odd", ()), ("unknown", ())):
            with pytest.raises(OSError) as caught:
                await net.peers[0].call(1, name, *args)
            assert caught.value.errno == errno.EIO
        net.peers[0].tell(1, "divide", 0)
        assert await net.peers[0].call(1, "divide", 1) == 1

    run(program, 2)
    told = capsys.readouterr().err
    assert told.count("ZeroDivisionError") == 2 and "unknown" in told and "pickle" in told.lower()


def test_calls_begin_in_the_order_in_which_they_were_made() -> None:
    heard: list[tuple[int, int]] = []

    async def program(net: Net) -> None:
        async def later(rank: int, number: int) -> None:
            heard.append((rank, number))
            await asyncio.sleep(0)

        net.peers[0].serve("later", later)
        net.peers[0].serve("now", lambda rank, number: heard.append((rank, number)))
        calls = []
        for number in range(300):
            for peers in net.peers[1:]:
                if number % 3 == 0:
                    peers.tell(0, "now", number)
                else:
                    work = peers.call(0, "later" if number % 3 == 1 else "now", number)
                    calls.append(asyncio.ensure_future(work))
                    await asyncio.sleep(0)  # until it is made
        await asyncio.gather(*calls)

    run(program, 4)
    for rank in (1, 2, 3):
        assert [number for sender, number in heard if sender == rank] == list(range(300))


def test_long_messages_arrive_whole_between_short_ones() -> None:
    async def program(net: Net) -> None:
        net.peers[1].serve("sum", lambda _, data: (len(data), data[-1:], data))
        sizes = [0, 1, PIECE_BYTES - 100, PIECE_BYTES, 3 * PIECE_BYTES + 1, 5, 12 << 20]
        values = [bytes([n]) * size for n, size in enumerate(sizes)]
        answers = await asyncio.gather(*(net.peers[0].call(1, "sum", v) for v in values))
        assert answers == [(len(v), v[-1:], v) for v in values]

    run(program, 2)


def test_pieces_that_were_not_followed_by_the_rest_are_dropped() -> None:
    joiner = Joiner()
    first, *_ = pieces_of(b"x" * (3 * PIECE_BYTES))
    assert joiner.join(first) is None
    assert [joiner.join(piece) for piece in pieces_of(b"short")] == [b"short"]
    assert joiner.join(first) is None
    *begun, last = pieces_of(b"y" * (PIECE_BYTES + 1))
    assert [joiner.join(piece) for piece in begun] == [None]
    assert joiner.join(last) == b"y" * (PIECE_BYTES + 1)
    assert [joiner.join(piece) for piece in pieces_of(b"")] == [b""]


# ---- ranks that are gone ----


async def call_gone(peers: ConnectedPeers, rank: int, name: str = "echo") -> None:
    with pytest.raises(RankGone) as caught:
        await peers.call(rank, name)
    assert caught.value.errno == errno.EIO


def test_a_rank_that_cannot_be_reached_is_lost_to_all_who_call() -> None:
    lost: list[tuple[int, int]] = []

    async def program(net: Net) -> None:
        net.peers[2].serve("echo", lambda _: "here")
        for peers in net.peers:
            peers.on_lost(lambda rank, own=peers.rank: lost.append((own, rank)))
        net.mails[1].cut = True
        await call_gone(net.peers[0], 1)
        await call_gone(net.peers[0], 1)
        assert net.mails[0].is_lost(1) and net.peers[0].is_lost(1)
        net.peers[0].tell(1, "echo")
        assert not net.peers[2].is_lost(1)
        assert await net.peers[0].call(2, "echo") == "here"
        await asyncio.sleep(0)

    run(program, 3)
    assert lost == [(0, 1)]


def test_what_the_core_knows_to_be_lost_fails_those_who_wait() -> None:
    async def program(net: Net) -> None:
        async def never(_: int) -> None:
            await asyncio.sleep(LIMIT_S * 2)

        net.peers[1].serve("never", never)
        waits = [asyncio.ensure_future(net.peers[0].call(1, "never")) for _ in range(3)]
        await asyncio.sleep(0.05)
        net.mails[0].lose(1)
        for wait in waits:
            with pytest.raises(RankGone):
                await wait

    run(program, 2)


@pytest.mark.parametrize("kind", ["silent", "dropped"])
def test_a_silent_rank_is_lost_and_others_are_not(kind: str) -> None:
    async def program(net: Net) -> None:
        async def slow(_: int) -> str:
            await asyncio.sleep(6 * QUICK_S)
            return "slow"

        for peers in net.peers[1:]:
            peers.serve("slow", slow)
        setattr(net.mails[1], kind, True)
        slow_one = asyncio.ensure_future(net.peers[0].call(2, "slow"))
        await call_gone(net.peers[0], 1, "slow")
        assert await slow_one == "slow"  # it answered pings meanwhile
        assert not net.peers[0].is_lost(2)
        setattr(net.mails[1], kind, False)
        net.mails[1].speak()
        await asyncio.sleep(2 * QUICK_S)
        await call_gone(net.peers[0], 1, "slow")  # lost for good

    run(program, 3, QUICK_S)


def test_nobody_is_asked_where_nobody_waits() -> None:
    async def program(net: Net) -> None:
        net.peers[1].serve("echo", lambda _: 1)
        assert await net.peers[0].call(1, "echo") == 1
        await asyncio.sleep(4 * QUICK_S)
        assert [mail.posted for mail in net.mails] == [1, 1]
        assert await net.peers[0].call(1, "echo") == 1

    run(program, 2, QUICK_S)


def test_who_stood_still_itself_takes_nobody_for_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    async def program(net: Net) -> None:
        net.peers[1].serve("echo", lambda _: 1)
        net.mails[1].silent = True
        wait = asyncio.ensure_future(net.peers[0].call(1, "echo"))
        await asyncio.sleep(QUICK_S / 2)
        loop = asyncio.get_running_loop()
        time = loop.time
        monkeypatch.setattr(loop, "time", lambda: time() + 10)  # as after SIGSTOP and SIGCONT
        await asyncio.sleep(QUICK_S)
        assert not net.peers[0].is_lost(1)
        net.mails[1].speak()
        assert await wait == 1

    run(program, 2, QUICK_S)


def test_memory_that_is_short_is_an_error_and_not_a_wait() -> None:
    async def program(net: Net) -> None:
        net.peers[1].serve("echo", lambda _: 1)
        net.mails[0].full = True
        with pytest.raises(OSError) as caught:
            await net.peers[0].call(1, "echo")
        assert caught.value.errno == errno.ENOMEM
        net.mails[0].full, net.mails[1].full = False, True
        wait = asyncio.ensure_future(net.peers[0].call(1, "echo"))
        await until(lambda: net.peers[1].is_lost(0))  # it cannot be told anything
        net.mails[0].lose(1)
        with pytest.raises(RankGone):
            await wait

    run(program, 2)


def test_what_is_sent_in_one_turn_goes_together() -> None:
    heard: list[int] = []

    async def program(net: Net) -> None:
        net.peers[1].serve("note", lambda _, number: heard.append(number))
        net.peers[1].serve("heard", lambda _: len(heard))
        for number in range(100):
            net.peers[0].tell(1, "note", number)
        assert await net.peers[0].call(1, "heard") == 100
        assert heard == list(range(100))
        assert [mail.posted for mail in net.mails] == [1, 1]
        net.peers[0].tell(1, "note", 100)
        net.peers[0].close()
        await until(lambda: heard[-1] == 100)

    run(program, 2)


def test_memory_that_is_short_for_one_of_what_goes_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A call fails, and an answer is an error; neither takes others with it, or loses a rank."""

    async def program(net: Net) -> None:
        for mail in net.mails:
            monkeypatch.setattr(mail, "post", little(mail.post))
        net.peers[1].serve("echo", lambda _, data: data)
        net.peers[1].serve("much", lambda _: b"1" * 2000)
        small, large, much = await asyncio.gather(
            net.peers[0].call(1, "echo", b"1"),
            net.peers[0].call(1, "echo", b"1" * 2000),
            net.peers[0].call(1, "much"),
            return_exceptions=True,
        )
        assert small == b"1"
        assert [each.errno for each in (large, much)] == [errno.ENOMEM] * 2
        assert not net.peers[0].is_lost(1)
        assert not net.peers[1].is_lost(0)

    def little(post: Callable[[int, bytes], None]) -> Callable[[int, bytes], None]:
        def post_little(rank: int, data: bytes) -> None:
            if len(data) > 1000:
                raise failure(errno.ENOMEM)
            post(rank, data)

        return post_little

    run(program, 2)


def test_a_cancelled_call_is_forgotten() -> None:
    async def program(net: Net) -> None:
        release = asyncio.Event()

        async def held(_: int) -> int:
            await release.wait()
            return 1

        net.peers[1].serve("held", held)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(net.peers[0].call(1, "held"), 0.05)
        wait = asyncio.ensure_future(net.peers[0].call(1, "held"))
        await asyncio.sleep(0.02)
        release.set()
        assert await wait == 1

    run(program, 2)


def test_closing_fails_who_waits_and_ends_who_answers() -> None:
    ended: list[Any] = []

    async def program(net: Net) -> None:
        async def held(_: int) -> None:
            try:
                await asyncio.sleep(LIMIT_S * 2)
            finally:
                ended.append("held")

        net.peers[1].serve("held", held)
        wait = asyncio.ensure_future(net.peers[0].call(1, "held"))
        await asyncio.sleep(0.05)
        net.peers[0].close()
        await call_gone_wait(wait)
        net.peers[1].close()
        await until(lambda: bool(ended))
        await call_gone(net.peers[0], 1)

    async def call_gone_wait(wait: asyncio.Future[Any]) -> None:
        with pytest.raises(RankGone):
            await wait

    run(program, 2)
