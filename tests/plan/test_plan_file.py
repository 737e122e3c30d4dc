"""Plan files that are damaged, cut, forged or of another version: refused, each with a message."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from inprocess import call
from plans import JOB, make_dataset, plan

from fanstore.errors import FanstoreError
from fanstore.plan.container import (
    DESCRIPTION,
    ENTRY,
    HEADER,
    KEPT,
    READS,
    PlanContainer,
    PlanDamaged,
    write_container,
)
from fanstore.plan.planfile import PlanFile

Sections = list[tuple[int, int, bytes]]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A plan with all kinds of sections."""
    folder = tmp_path_factory.mktemp("forged")
    recorded = []
    for rank in range(8):
        np.save(folder / f"{rank}.npy", np.arange(rank, rank + 8))
        recorded += ["--recorded", str(folder / f"{rank}.npy")]
    plan(folder, make_dataset(folder), *JOB[:4], *recorded)
    return folder / "p.plan"


def sections_of(path: Path) -> Sections:
    container = PlanContainer(path)
    found = [(each.kind, each.number, container.read(each)) for each in container.sections]
    container.close()
    return found


def forged(path: Path, sections: Sections) -> Path:
    """A plan file of these sections, with the checksums that they have."""
    stream = io.BytesIO()
    write_container(stream, sections, len(sections))
    path.write_bytes(stream.getvalue())
    return path


def check(path: Path) -> None:
    with PlanFile(path) as plan_file:
        plan_file.check()


def test_writing_again_what_was_read_gives_the_same_file(made: Path, tmp_path: Path) -> None:
    assert forged(tmp_path / "again", sections_of(made)).read_bytes() == made.read_bytes()
    check(made)


def test_every_flipped_bit_and_every_cut_is_refused(made: Path, tmp_path: Path) -> None:
    content = made.read_bytes()
    container = PlanContainer(made)
    places = {*range(HEADER.size + 2 * ENTRY.size)}  # all of the header, some of the table
    for each in container.sections:
        places |= {each.offset, each.offset + each.size // 2, each.offset + each.size - 1}
    container.close()
    damaged = tmp_path / "damaged"
    for place in sorted(places):
        damaged.write_bytes(
            content[:place] + bytes([content[place] ^ 1 << place % 8]) + content[place + 1 :]
        )
        with pytest.raises(FanstoreError, match="damaged: "):
            check(damaged)
    for length in sorted({0, 1, *places, len(content) - 1}):
        damaged.write_bytes(content[:length])
        with pytest.raises(PlanDamaged, match="make the plan again"):
            check(damaged)
    damaged.write_bytes(content + b"\0")
    with pytest.raises(PlanDamaged, match=r"header\.file_bytes at offset 16"):
        check(damaged)


def test_damage_is_told_with_its_exit_code(made: Path, tmp_path: Path) -> None:
    content = bytearray(made.read_bytes())
    content[-1] ^= 1
    (tmp_path / "p").write_bytes(content)
    said = call("study", "plan", "--show", tmp_path / "p", code=3).stderr
    assert "reads[7] at offset" in said
    assert "the checksum does not match; make the plan again" in said
    content[8] = 2  # the version
    (tmp_path / "p").write_bytes(content)
    assert (
        "header.version is 2; allowed: 1"
        in call("study", "plan", "--show", tmp_path / "p", code=2).stderr
    )
    (tmp_path / "p").write_text("[system]")
    assert (
        "not a plan of FanStore" in call("study", "plan", "--show", tmp_path / "p", code=3).stderr
    )
    assert (
        "missing: No such file"
        in call("study", "plan", "--show", tmp_path / "missing", code=2).stderr
    )
    assert "is a directory" in call("study", "plan", "--show", tmp_path, code=2).stderr


def text(change: Callable[[dict[str, Any]], object]) -> Callable[[Sections], Sections]:
    """Sections with another description."""

    def changed(sections: Sections) -> Sections:
        table = json.loads(sections[0][2])
        change(table)
        return [(DESCRIPTION, 0, json.dumps(table).encode()), *sections[1:]]

    return changed


def raw(content: bytes) -> Callable[[Sections], Sections]:
    return lambda sections: [(DESCRIPTION, 0, content), *sections[1:]]


def put(number: int, content: bytes) -> Callable[[Sections], Sections]:
    """Sections with another content in one place."""

    def changed(sections: Sections) -> Sections:
        kind, own, _ = sections[number]
        return [*sections[:number], (kind, own, content), *sections[number + 1 :]]

    return changed


FORGED: dict[str, tuple[Callable[[Sections], Sections], str]] = {
    "no sections": (lambda _: [], "the description is not the first"),
    "no description": (lambda s: s[1:], "the description is not the first"),
    "one less": (lambda s: s[:-1], "16 sections, and the job has 17"),
    "one more": (lambda s: [*s, (READS, 8, b"")], "18 sections, and the job has 17"),
    "other numbers": (lambda s: [*s[:-1], (READS, 9, s[-1][2])], "not the 17 of the job"),
    "other kinds": (lambda s: [*s[:-1], (KEPT, 7, s[-1][2])], "not the 17 of the job"),
    "unknown kind": (lambda s: [*s[:-1], (3, 7, s[-1][2])], "table.kind at offset"),
    "no text": (raw(b"\xff"), "no JSON"),
    "no JSON": (raw(b"{"), "no JSON"),
    "deep JSON": (raw(b"[" * 1_000_000), "no JSON"),
    "no number": (raw(b'{"dataset": NaN}'), "NaN is no number"),
    "long number": (raw(b'{"dataset": ' + b"9" * 100_000 + b"}"), "no JSON"),
    "no table": (raw(b"[]"), "allowed is a table"),
    "unknown key": (text(lambda t: t.update(more=1)), "more is unknown"),
    "missing": (text(lambda t: t.pop("kept")), "kept is missing"),
    "id": (text(lambda t: t["dataset"].update(id="..")), "dataset.id is '..'; allowed: 32"),
    "files": (text(lambda t: t["dataset"].update(files=2**32)), "dataset.files is 4294967296"),
    "more files": (text(lambda t: t["dataset"].update(files=2**31)), "8 bytes for 2,147,483,648"),
    "nodes": (text(lambda t: t["system"].update(nodes=10**30)), "1 or more, 1048576 at most"),
    "ranks": (text(lambda t: t["system"].update(ranks_per_node=10**30)), "1 or more, 1048576 at"),
    "epochs": (text(lambda t: t["job"].update(epochs=10**30)), "allowed: 1000000000"),
    "batch": (text(lambda t: t["job"].update(batch=0)), "job.batch is 0; allowed: an integer"),
    "recorded": (text(lambda t: t["job"]["order"].update(epochs=2)), "order.epochs is 2; allowed"),
    "order": (text(lambda t: t["job"].update(order="x")), "job.order.name is 'x'; allowed"),
    "class": (text(lambda t: t["system"]["classes"].pop()), "kept.files has another shape"),
    "kept": (text(lambda t: t["kept"]["files"][0].append(1)), "kept.files has another shape"),
    "below 0": (text(lambda t: t["kept"]["files"][0].__setitem__(0, -1)), "kept.files is wrong"),
    "another count": (
        text(lambda t: t["kept"]["files"][0].__setitem__(0, 59)),
        "kept[0] at offset",
    ),
    "too much": (
        text(lambda t: t["kept"]["bytes"][0].__setitem__(0, 10**9)),
        "keeps more than the capacity of ram",
    ),
    "seconds": (text(lambda t: t["expected"].update(epochs_s=[1])), "expected.epochs_s is some"),
    "no seconds": (text(lambda t: t["expected"].update(computed_s=-1)), "expected.computed_s is"),
    "sources": (text(lambda t: t["expected"]["source_bytes"].pop("ram")), "source_bytes is {"),
    "short bitmap": (put(1, b"\0" * 7), "kept[0] at offset"),
    "beyond the last": (put(1, b"\xff" * 8), "keeps files beyond the last"),
    "in two classes": (lambda s: put(2, s[1][2])(s), "that another storage class keeps"),
    "no reads": (put(9, b""), "reads[0] at offset"),
    "parts of reads": (put(9, b"\0" * 5), "not one or more u32"),
    "samples beyond": (put(9, b"\x3c\0\0\0"), "samples beyond the last"),
}


@pytest.mark.parametrize("case", FORGED)
def test_a_forged_plan_is_refused(case: str, made: Path, tmp_path: Path) -> None:
    change, message = FORGED[case]
    path = forged(tmp_path / "forged", change(sections_of(made)))
    with pytest.raises(FanstoreError) as error:
        check(path)
    assert str(error.value).startswith(f"{path}: ")
    assert message in str(error.value)


def test_a_plan_that_keeps_other_bytes_than_it_says_is_refused(made: Path, tmp_path: Path) -> None:
    change = text(lambda t: t["kept"]["bytes"][0].__setitem__(1, 1))
    path = forged(tmp_path / "forged", change(sections_of(made)))
    check(path)
    said = call("study", "plan", "--show", path, made.parent / "data", code=3).stderr
    assert "kept[1] at offset" in said
    assert "keeps other bytes than those of kept.bytes" in said


def test_a_section_count_beyond_the_file_allocates_nothing(made: Path, tmp_path: Path) -> None:
    content = bytearray(made.read_bytes())
    content[12:16] = b"\xff" * 4
    (tmp_path / "p").write_bytes(content)
    with pytest.raises(PlanDamaged, match="4,294,967,295 are too many"):
        check(tmp_path / "p")
