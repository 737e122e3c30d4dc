"""Programs that look at outputs without asking: what they see, and when they ask after all."""

from __future__ import annotations

import asyncio
import signal
import socket
from pathlib import Path
from typing import Any

import pytest
from looker import BEGUN_AT, TOP, Looker, asked, header_words, looker  # noqa: F401
from namespace_fakes import FakeDrafts, FakeInputs, FakeStore, World
from output_fixtures import dataset, served  # noqa: F401
from output_service import Served
from serving import wait_for

from fanstore.outputs.model.entries import Place
from fanstore.outputs.model.segment import NameSegment
from fanstore.outputs.model.wire import Op, Request
from fanstore.outputs.namespace import moving
from fanstore.outputs.namespace.operations import Operations


def test_looks_are_not_asked(served: Served, looker: Looker, asked: list[int]) -> None:  # noqa: F811
    """Neither at what is there or is not, nor to read it; what changes is seen at once."""
    served.client.write_file(b"a", b"four")
    served.client.ask(Op.MKDIR, b"made", mode=0o755)
    served.client.write_file(b"made/b", b"b")
    looks = [
        (f"os.stat('{TOP}/a').st_size", 4), (f"os.access('{TOP}/a', os.R_OK)", True),
        (f"os.path.exists('{TOP}/none')", False), (f"os.path.exists('{TOP}/a/b')", False),
        (f"open('{TOP}/a').read()", "four"), (f"os.listdir('{TOP}/made')", ["b"]),
        (f"os.path.exists('{TOP}/made/none/c')", False), (f"os.path.isdir('{TOP}/made')", True),
        (f"sorted(os.listdir('{TOP}'))", ["a", "d", "input", "made"]),
        (f"os.path.isdir('{TOP}/made/')", True), (f"os.path.exists('{TOP}/a/')", False),
        (f"os.stat('{TOP}/made/').st_ino == os.stat('{TOP}/made').st_ino", True),
    ]  # fmt: skip
    before = len(asked)
    assert [looker.told(look) for look, _ in looks] == [told for _, told in looks]
    assert asked[before:] == []
    served.client.ask(Op.RENAME, b"made", b"other")
    assert looker.told(f"os.listdir('{TOP}/other')") == ["b"]
    assert looker.told(f"os.path.exists('{TOP}/made/b')") is False
    served.client.ask(Op.UNLINK, b"a")
    assert looker.told(f"os.path.exists('{TOP}/a')") is False


@pytest.fixture
def renames(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Makes renames slow; those that have begun."""
    begun = []
    rename = moving.rename

    async def slow(context: Any, request: Request) -> Any:
        begun.append(request.path)
        await asyncio.sleep(0.5)
        return await rename(context, request)

    monkeypatch.setattr(moving, "rename", slow)
    return begun


def test_what_a_killed_program_asked_for_comes_first(
    renames: list[bytes],
    served: Served,  # noqa: F811
    looker: Looker,  # noqa: F811
) -> None:
    """Whoever has waited for its end sees its rename, though it had no answer yet."""
    served.client.ask(Op.MKDIR, b"old", mode=0o755)  # files are renamed without a question
    assert looker.told(f"os.path.isdir('{TOP}/old')") is True
    killed = Looker(served.path)
    killed.begin(f"os.rename('{TOP}/old', '{TOP}/new')")
    wait_for(lambda: renames, "the rename")
    killed.process.send_signal(signal.SIGKILL)
    killed.process.communicate()
    assert looker.told(f"os.path.isdir('{TOP}/new')") is True
    assert looker.told(f"os.path.exists('{TOP}/old')") is False


def test_a_program_killed_before_it_asked(
    served: Served,  # noqa: F811
    looker: Looker,  # noqa: F811
    asked: list[int],  # noqa: F811
) -> None:
    """What it had announced never comes: looks are questions until that is certain."""
    served.client.write_file(b"a", b"four")
    assert looker.told(f"os.symlink('a', '{TOP}/link')") is None
    words = header_words(served.path, "Q")
    assert words[BEGUN_AT // 8] == 1, "the symlink"
    with socket.socket(socket.AF_UNIX) as killed:  # programs announce once they have connected
        killed.connect(f"{served.path}/outputs")
        words[BEGUN_AT // 8] += 1
        before = len(asked)
        assert looker.size("a") == 4
        assert asked[before:] == [Op.LOOKUP]

    def unasked() -> bool:
        count = len(asked)
        return looker.size("a") == 4 and len(asked) == count

    wait_for(unasked, "looks without a question")


def test_a_draft_is_taken_once_nothing_is_under_way_elsewhere(tmp_path: Path) -> None:
    """Else another rank could publish it while it is dropped here: only `hold` waits for that."""
    steps: list[str] = []

    class Noting(NameSegment):
        def take_draft(self, object_id: int) -> None:
            steps.append("take")

        def hold(self) -> None:
            steps.append("hold")

        def follow(self, change: Any) -> bool:
            steps.append("follow")
            return False

    async def work() -> None:
        store = FakeStore(tmp_path, 0)
        drafts = FakeDrafts(store)
        operations = Operations(World(1).ranks[0], [], drafts, store, Noting())
        operations.take_draft(7)

    asyncio.run(work())
    assert steps == ["take", "hold", "follow"]


def test_a_draft_under_a_locked_name_is_taken(tmp_path: Path) -> None:
    """Else its program could publish it between the steps of a rename to another home, which would
    lose it."""
    taken: list[int] = []

    class Noting(NameSegment):
        def take_draft(self, object_id: int) -> None:
            taken.append(object_id)

    async def work() -> None:
        store, place = FakeStore(tmp_path, 0), Place(0, b"", b"name")
        inputs = [FakeInputs(b"/mount", {})]
        drafts = FakeDrafts(store)
        peers = World(1).ranks[0]
        operations = Operations(peers, inputs, drafts, store, Noting())
        operations.name_tables.reserve(place, 7, True, False)
        slot = await peers.call(0, "home.lock", place, 1)
        assert slot.draft == 7

    asyncio.run(work())
    assert taken == [7]


def test_a_directory_is_open_again_once_no_name_in_it_is_locked(tmp_path: Path) -> None:
    """So programs change names in it themselves after a rename that the daemon made."""
    steps: list[str] = []

    class Noting(NameSegment):
        def open_directory(self, mount: int, directory: bytes) -> None:
            steps.append("open")

        def close_directory(self, mount: int, directory: bytes) -> None:
            steps.append("close")

    async def work() -> None:
        store, inputs = FakeStore(tmp_path, 0), [FakeInputs(b"/mount", {})]
        peers = World(1).ranks[0]
        Operations(peers, inputs, FakeDrafts(store), store, Noting())
        one, other = Place(0, b"", b"one"), Place(0, b"", b"other")
        await peers.call(0, "home.lock", one, 1)
        await peers.call(0, "home.lock", other, 2)
        del steps[:]
        await peers.call(0, "home.unlock", one, 2)
        await peers.call(0, "home.unlock", one, 1)
        assert steps == []
        await peers.call(0, "home.unlock", other, 2)

    asyncio.run(work())
    assert steps == ["open"]
