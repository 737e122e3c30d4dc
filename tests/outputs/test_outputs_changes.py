"""Programs that change names themselves, without asking: who sees it, what the daemon makes of it,
and what is left when either is killed."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from looker import CHANGER_AT, TOP, Looker, asked, header_words, looker  # noqa: F401
from object_files import make_object
from output_fixtures import dataset, served  # noqa: F401
from output_service import Served
from serving import wait_for

from fanstore.dataset import Dataset
from fanstore.outputs.model import changes
from fanstore.outputs.model.changes import Change
from fanstore.outputs.model.entries import FOLDER_OBJECTS, LANES, Attr, Place
from fanstore.outputs.model.wire import Op
from fanstore.outputs.namespace.following import Following
from fanstore.outputs.stageout import rescue as rescue_module
from fanstore.outputs.stageout.journal import JOURNAL, Header, Journal
from fanstore.outputs.stageout.rescue import rescue

WRITE = "open('{top}/{name}', 'w').write('{text}')"

AS_ROOT = pytest.mark.skipif(
    os.geteuid() != 0, reason="for others than root it answers EACCES where the kernel does not"
)


def write(looker: Looker, name: str, text: str) -> None:  # noqa: F811
    assert looker.told(WRITE.format(top=TOP, name=name, text=text)) == len(text)


@pytest.fixture
def keeping(tmp_path: Path, dataset: Dataset) -> Iterator[Served]:  # noqa: F811
    """A service that keeps what killed programs were writing."""
    made = Served(tmp_path, dataset, keep_partial=True)
    yield made
    made.service.close()


MANY = """
for number in range({count}):
    open('{top}/%d' % number, 'w').close()
for number in range({count}):
    os.unlink('{top}/%d' % number)
"""


def test_folders_of_objects_go_with_their_last(served: Served, looker: Looker) -> None:  # noqa: F811
    """A job that makes and removes files for months leaves no empty folders."""
    count = 2 * FOLDER_OBJECTS * LANES
    served.client.write_file(b"first", b"1")
    looker.told(f"exec({MANY.format(count=count, top=TOP)!r})")
    served.wait_for_count("published", count + 1)
    folders = os.path.join(served.path, "objects")
    wait_for(lambda: len(os.listdir(folders)) <= LANES + 2, "the folders to go")


def test_changes_are_not_asked(served: Served, looker: Looker, asked: list[int]) -> None:  # noqa: F811
    """Once something was made in a directory; another program sees them, and so does the daemon."""
    served.client.write_file(b"first", b"1")
    other = Looker(served.path)
    write(looker, "new", "four")
    assert asked.count(Op.OPEN) == 1 and Op.SETTLE not in asked[2:]
    before = len(asked)
    assert other.size("new") == 4
    assert looker.told(f"os.rename('{TOP}/new', '{TOP}/first')") is None
    assert other.size("first") == 4 and other.told(f"os.path.exists('{TOP}/new')") is False
    assert looker.told(f"os.mkdir('{TOP}/made')") is None
    write(looker, "made/inside", "12")
    assert other.told(f"os.listdir('{TOP}/made')") == ["inside"]
    assert looker.told(f"os.unlink('{TOP}/made/inside')") is None
    assert other.told(f"os.listdir('{TOP}/made')") == []
    assert other.told(f"os.rmdir('{TOP}/made')") is None
    assert looker.told(f"os.path.exists('{TOP}/made')") is False
    assert asked[before:] == []
    assert served.client.lookup(b"first")["size"] == 4
    assert not served.is_there(b"new") and not served.is_there(b"made")
    assert served.counted("published") == 3 and served.counted("drafts") == 0
    assert len(served.objects()) == 1
    other.process.kill()
    other.process.communicate()


ATTRIBUTES = [
    "os.chmod('{}/file', 0o640)",
    "os.chmod('{}/made', 0o1705)",
    "os.chown('{}/made', -1, os.getgid())",
    "os.chown('{}/file', os.getuid(), os.getgid())",
    "os.utime('{}/made', ns=(1_000_000_000_123_456_789, -5_123_456_789))",
    "os.utime('{}/file', ns=(7, 1_500_000_000_987_654_321))",
    "os.utime('{}/link', ns=(1, 2), follow_symlinks=False)",
    "os.chmod(os.open('{}/made', os.O_RDONLY), 0o711)",
    "os.chmod('{}/none', 0o600)",
    "os.utime('{}/file/none', (1, 1))",
]
FACTS = "[[s.st_mode, s.st_uid, s.st_gid, s.st_mtime_ns] for s in map(os.lstat, {})]"


@AS_ROOT
def test_attributes_are_changed_without_asking(
    served: Served,  # noqa: F811
    looker: Looker,  # noqa: F811
    asked: list[int],  # noqa: F811
    tmp_path: Path,
) -> None:
    """As in a plain directory; other programs see it, and the daemon; a directory's time holds
    until something is made in it."""
    plain = str(tmp_path / "plain")
    os.mkdir(plain)
    other = Looker(served.path)
    served.client.write_file(b"first", b"1")
    for top in (plain, TOP):
        for made in (
            "os.mkdir('{}/made')", "open('{}/file', 'w').write('four')",
            "os.symlink('file', '{}/link')",
        ):  # fmt: skip
            looker.told(made.format(top))
    before = len(asked)
    for change in ATTRIBUTES:
        assert looker.told(change.format(TOP)) == looker.told(change.format(plain)), change
    assert asked[before:] == []
    facts = [
        each.told(FACTS.format([f"{top}/{name}" for name in ("made", "file")]))
        for each, top in ((looker, plain), (looker, TOP), (other, TOP))
    ]
    assert facts[0] == facts[1] == facts[2]
    assert looker.told(f"os.lstat('{TOP}/link').st_mtime_ns") == 2
    assert looker.told(f"os.fstat(os.open('{TOP}/file', os.O_RDONLY)).st_mode") == facts[0][1][0]
    write(looker, "made/inside", "1")
    assert looker.told(f"os.stat('{TOP}/made').st_mtime_ns") > 10**18
    assert asked[before:] == []
    assert served.client.lookup(b"file")["mode"] == facts[0][1][0]
    assert served.client.lookup(b"made")["mode"] == facts[0][0][0]
    other.process.kill()
    other.process.communicate()


def test_what_is_refused_is_asked(served: Served, looker: Looker, asked: list[int]) -> None:  # noqa: F811
    """And refused as ever; a file that somebody is writing is for the daemon, too."""
    served.client.ask(Op.MKDIR, b"made", mode=0o755)
    write(looker, "made/a", "1")
    for refused in ("os.mkdir('{}/made')", "os.rmdir('{}/made')", "os.unlink('{}/none')"):
        assert isinstance(looker.told(refused.format(TOP)), int)
    assert asked[-3:] == [Op.MKDIR, Op.RMDIR, Op.UNLINK]
    looker.begin(f"(open('{TOP}/b', 'w'), os.rename('{TOP}/b', '{TOP}/c'))[1]")
    assert looker.process.stdout is not None and looker.process.stdout.readline() == "null\n"
    assert asked[-2:] == [Op.RENAME, Op.SETTLE]
    assert looker.size("c") == 0


def test_a_killed_writer(keeping: Served) -> None:
    """What it was writing is kept as that, though it had asked for nothing."""
    keeping.client.write_file(b"first", b"1")
    killed = Looker(keeping.path)
    expression = f"os.write(os.open('{TOP}/b', os.O_CREAT | os.O_WRONLY), b'half')"
    assert killed.told(expression) == 4
    killed.process.send_signal(signal.SIGKILL)
    killed.process.communicate()
    wait_for(lambda: keeping.is_there(b"b.partial"), "what it was writing")
    assert not keeping.is_there(b"b")
    assert keeping.client.lookup(b"b.partial")["size"] == 4


def test_two_that_make_one_file(served: Served, looker: Looker) -> None:  # noqa: F811
    """One of them does, the other is told so, whoever of them asks."""
    served.client.write_file(b"first", b"1")
    other = Looker(served.path)
    flags = "os.O_CREAT | os.O_EXCL | os.O_WRONLY"
    made = [each.told(f"os.open('{TOP}/lock', {flags})") for each in (looker, other)]
    assert made[1] == 17 and made[0] != 17
    other.process.kill()
    other.process.communicate()


def test_killed_while_it_changed_something(
    served: Served,  # noqa: F811
    looker: Looker,  # noqa: F811
    asked: list[int],  # noqa: F811
) -> None:
    """From then on all is asked for, and nothing that was done is lost."""
    served.client.write_file(b"first", b"1")
    write(looker, "a", "four")
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        gone.wait()
    header_words(served.path, "I")[CHANGER_AT // 4] = gone.pid
    write(looker, "b", "123")
    before = len(asked)
    assert (looker.size("first"), looker.size("a"), looker.size("b")) == (1, 4, 3)
    assert looker.told(f"os.rename('{TOP}/a', '{TOP}/b')") is None
    assert looker.size("b") == 4 and Op.RENAME in asked[before:]


def new_journal(served: Served, tmp_path_factory: pytest.TempPathFactory) -> Path:  # noqa: F811
    """Gives the job one in which nothing is noted; returns the output directory."""
    root = tmp_path_factory.mktemp("output")
    journal = Journal(os.path.join(served.path, JOURNAL), Header("1", bytes(root), (b"",), 0o22, 0))
    journal.close()
    return root


def change(kind: int, elsewhere: bool, rank: int, object_id: int, *places: Place) -> Change:
    mode = stat.S_IFDIR | 0o750 if kind == changes.MADE else stat.S_IFREG | 0o644
    attr = Attr(mode, os.getuid(), os.getgid(), 8, 8, 1, 1, 1)
    return Change(kind, elsewhere, rank, places[0], places[-1], object_id, 0, 1, 1, attr)


def test_a_daemon_that_was_killed_first(
    monkeypatch: pytest.MonkeyPatch,
    served: Served,  # noqa: F811
    looker: Looker,  # noqa: F811
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """What programs did and it had not followed is in the output directory all the same."""
    for name in (b"old", b"removed"):
        served.client.write_file(name, name)
    root = new_journal(served, tmp_path_factory)
    write(looker, "before", "followed")
    assert served.is_there(b"before")
    monkeypatch.setattr(Following, "catch_up", lambda _: False)
    write(looker, "new", "finished")
    assert looker.told(f"os.mkdir('{TOP}/made')") is None
    write(looker, "made/tmp", "renamed")
    assert looker.told(f"os.rename('{TOP}/made/tmp', '{TOP}/made/last')") is None
    write(looker, "gone", "x")
    assert looker.told(f"os.unlink('{TOP}/gone')") is None
    assert looker.told(f"os.write(os.open('{TOP}/half', os.O_CREAT | os.O_WRONLY), b'ha')") == 2
    rescued = rescue(served.path)
    assert rescued is not None and not rescued.kept
    found = {os.path.relpath(top, root): sorted(names) for top, _, names in os.walk(root)}
    assert found == {".": ["half.partial", "new"], "made": ["last"]}
    assert (root / "new").read_text() == "finished"
    assert (root / "made/last").read_text() == "renamed"


def test_a_rescue_knows_what_is_its_rank_s(
    monkeypatch: pytest.MonkeyPatch,
    served: Served,  # noqa: F811
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Of names that another rank keeps its programs' files, of its own names also what others
    made; not others' files."""
    root = new_journal(served, tmp_path_factory)
    finished, half, theirs = 11, 12, 1 << 40 | 13
    for number, text in ((finished, "finished"), (half, "ha")):
        make_object(Path(served.path), number, text)
    nowhere, tmp, last = Place(0, b"", b""), Place(0, b"far", b"tmp"), Place(0, b"far", b"last")
    log = [
        change(changes.CREATED, True, 0, finished, tmp),
        change(changes.PUBLISHED, True, 0, finished, nowhere),
        change(changes.MOVED, True, 0, finished, tmp, last),
        change(changes.CREATED, True, 0, half, Place(0, b"far", b"half")),
        change(changes.CREATED, False, 1, theirs, Place(0, b"", b"theirs")),
        change(changes.PUBLISHED, False, 1, theirs, Place(0, b"", b"theirs")),
        change(changes.MADE, False, 1, 14, Place(0, b"", b"made")),
        change(changes.MADE, True, 0, 15, Place(0, b"far", b"another's")),
    ]
    monkeypatch.setattr(rescue_module, "left_in", lambda _: (0, log))
    rescued = rescue(served.path)
    assert rescued is not None and not rescued.kept
    found = {os.path.relpath(top, root): sorted(names) for top, _, names in os.walk(root)}
    assert found == {".": [], "far": ["half.partial", "last"], "made": []}
    assert (root / "far/last").read_text() == "finished"


def test_a_rescue_keeps_what_has_no_name_any_more(
    monkeypatch: pytest.MonkeyPatch,
    served: Served,  # noqa: F811
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Another rank kept it, and the daemon noted no drafts."""
    root = new_journal(served, tmp_path_factory)
    make_object(Path(served.path), 11, "finished")
    log = [change(changes.PUBLISHED, True, 0, 11, Place(0, b"", b""))]
    monkeypatch.setattr(rescue_module, "left_in", lambda _: (0, log))
    rescued = rescue(served.path)
    assert rescued is not None
    assert rescued.kept == [("nameless-b", "only the daemon knew its name")]
    assert Path(rescued.folder, "nameless-b").read_text() == "finished"
    assert os.listdir(root) == []
