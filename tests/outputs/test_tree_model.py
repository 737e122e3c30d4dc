"""Stage-out against its model: whatever programs did, and wherever a pass was killed, the next pass
makes the output directory what the tree is, and nothing is lost or touched on the way."""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tree_model import Killed, Model

from fanstore.outputs.model.entries import Identity
from fanstore.outputs.tree import passes, placed
from fanstore.outputs.tree.placed import Source

Op = tuple[str, ...]
NAMES = ("a", "b", "c")
ONE = ("create", "append", "overwrite", "utime", "unlink", "mkdir")
TWO = ("rename", "link")
START: tuple[Op, ...] = (("create", "a"), ("create", "b"))


def operations(names: tuple[str, ...]) -> list[Op]:
    """All of them on these names."""
    found: list[Op] = [(op, name) for op in ONE for name in names]
    return found + [(op, *pair) for op in TWO for pair in itertools.permutations(names, 2)]


def run(model: Model, ops: tuple[Op, ...]) -> None:
    for op in ops:
        model.change(op)


def begin(path: Path, ops: tuple[Op, ...]) -> Model:
    """A model in which two files are placed, and then a program did `ops`."""
    model = Model(path)
    run(model, START)
    model._sleep(1)
    model.pass_over()
    run(model, ops)
    model._sleep(1)
    return model


def kill_at(model: Model, number: int, last: bool) -> bool:
    """Passes, and is killed at a step. Whether there was such a step."""

    def at(step: int) -> None:
        if step == number:
            raise Killed

    return observed(model, at, last)


def observed(model: Model, at: Callable[[int], None], last: bool = False) -> bool:
    """A pass at whose steps something happens. Whether that killed it."""
    before, killed = model.contents(), False
    model.at_step = at
    try:
        model.pass_over(last)
    except Killed:
        killed = True
    model.at_step, model.at_look = lambda step: None, lambda: None
    lost = (before & model.living()) - model.contents()
    assert not lost, f"{lost} was placed, has a name, and is gone"
    model.check_versions()
    return killed


def finish(model: Model, what: object) -> None:
    """What a rescue does, and that nothing differs then."""
    model.end_daemon()
    model.pass_over(last=True)
    assert model.of_output() == model.of_tree(), what
    model.pass_over(last=True)
    assert model.of_output() == model.of_tree(), f"{what}: a second pass changes something"
    left = [each for each in os.listdir(model.out) if each.startswith(".fanstore-")]
    assert not left and not model.backups(), what


def each_kill(path: Path, ops: tuple[Op, ...], last: bool) -> int:
    """Runs one program, and its pass once for each step at which that can be killed."""
    for number in itertools.count(1):
        model = begin(path, ops)
        killed = kill_at(model, number, last)
        finish(model, (ops, number))
        if not killed:
            return number
    raise AssertionError


def programs(count: int) -> Iterator[tuple[Op, ...]]:
    """All programs of so many operations, but those that are another one with a and b renamed."""
    swapped = {"a": "b", "b": "a", "c": "c"}
    for ops in itertools.product(operations(NAMES), repeat=count):
        other = tuple((op[0], *(swapped[name] for name in op[1:])) for op in ops)
        if ops <= other:
            yield ops


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model"


@pytest.mark.soak
@pytest.mark.parametrize("part", range(4))
def test_all_programs_of_two(path: Path, part: int) -> None:
    for ops in itertools.islice(programs(2), part, None, 4):
        each_kill(path, ops, last=False)


@pytest.mark.soak
@pytest.mark.parametrize("part", range(8))
def test_all_programs_of_three(path: Path, part: int) -> None:
    for ops in itertools.islice(programs(3), part, None, 8):
        each_kill(path, ops, last=False)


DEEP = ("a", "b", "d", "d/a", "d/b", "e", "e/a")


def random_op(choose: random.Random) -> Op:
    op = choose.choice([*ONE, *TWO, *TWO, "chmod", "rmdir", "symlink", "open", "close"])
    if op in TWO:
        return (op, *choose.sample(DEEP, 2))
    return (op, choose.choice(DEEP))


def one_at_random(path: Path, seed: int) -> None:
    """A longer program, with passes on its way that are killed, beside a program that goes on, and
    with somebody else's files in the output directory."""
    choose = random.Random(seed)
    model = Model(path)
    for _ in range(choose.randint(3, 30)):
        model.change(random_op(choose))
        if choose.random() < 0.3:
            disturbed(model, choose)
        if choose.random() < 0.05:
            model.foreign(choose.choice(DEEP))
    model.change(("close", "a"))
    model._sleep(1)
    if model.theirs or choose.random() < 0.5:
        model.end_daemon()  # else it does not see that others took what it placed
    model.pass_over(last=True)
    found, expected = model.of_output(), model.of_tree()
    extra = {name: found.pop(name) for name in found.keys() - expected.keys()}
    assert found == expected, seed
    files = {what[1] for what in extra.values() if what[0] != "directory"}
    assert files <= model.theirs and (model.theirs or not extra), (seed, extra)
    assert model.theirs <= model.contents(), f"{seed}: somebody else's file is gone"


def disturbed(model: Model, choose: random.Random) -> None:
    """A pass, at whose steps, or while it takes stock, something may happen."""
    kill, change, look = (choose.randint(1, 60) for _ in range(3))
    looks = itertools.count(1)

    def at(step: int) -> None:
        if step == change:
            model.change(random_op(choose))
        if step == kill:
            raise Killed

    def at_look() -> None:
        if next(looks) == look // 6:
            model.change(random_op(choose))

    model.at_look = at_look
    observed(model, at)


@pytest.mark.parametrize("part", range(8))
def test_programs_at_random(path: Path, part: int) -> None:
    for seed in range(part * 250, part * 250 + 250):
        one_at_random(path, seed)


@pytest.mark.parametrize("seed", [49117, 57664])
def test_a_mode_changed_in_one_tick_with_another_change(path: Path, seed: int) -> None:
    one_at_random(path, seed)


@pytest.mark.soak
@pytest.mark.parametrize("part", range(16))
def test_many_programs_at_random(path: Path, part: int) -> None:
    for seed in range(10_000 + part * 6_250, 10_000 + (part + 1) * 6_250):
        one_at_random(path, seed)


def test_a_directory_goes_though_a_copy_in_it_had_to_stay(path: Path) -> None:
    """Its file has moved out and is being written: until that is placed anew, its copy stays."""
    model = Model(path)
    run(model, (("mkdir", "d"), ("create", "d/a")))
    model._sleep(1)
    model.pass_over()
    run(model, (("rename", "d/a", "a"), ("rmdir", "d"), ("open", "a")))
    model.pass_over()
    assert (model.out / "d/a").exists(), "no copy goes before its bytes are elsewhere"
    model.change(("close", "a"))
    model._sleep(1)
    model.pass_over()
    assert model.of_output() == model.of_tree()


def test_a_file_that_gets_another_mode_and_another_name(path: Path) -> None:
    """The new name comes first in the pass, and its copy is that of the old one."""
    model = Model(path)
    model.change(("create", "b"))
    model._sleep(1)
    model.pass_over()
    run(model, (("chmod", "b"), ("link", "b", "a")))
    model._sleep(1)
    model.pass_over()
    assert model.of_output() == model.of_tree()


def test_a_copy_goes_though_its_inode_number_is_another_file_s(path: Path) -> None:
    model = Model(path)
    run(model, (("create", "a"),))
    model._sleep(1)
    model.pass_over()
    model.change(("unlink", "a"))
    if not gives_numbers_again(model.tree / "a"):
        pytest.skip("this file system gives no inode number again at once")
    run(model, (("create", "b"), ("open", "b")))
    model.pass_over()
    assert model.of_output() == {}, "b is being written, and a is gone"


# ---- each condition is needed ----


def in_order(path: Path) -> None:
    """Files come in the order in which they were finished, wherever a pass is killed."""
    for number in itertools.count(1):
        model = Model(path)
        for name in ("c", "a", "b"):
            model.change(("create", name))
            model._sleep(1)
        killed = kill_at(model, number, last=False)
        there = [(model.out / name).exists() for name in ("c", "a", "b")]
        assert there == sorted(there, reverse=True), number
        if not killed:
            return


def small(path: Path) -> None:
    """Programs that move bytes from one name to another."""
    for ops in (
        (("rename", "a", "c"), ("rename", "b", "a")),
        (("rename", "b", "a"), ("create", "b")),
        (("rename", "a", "c"), ("create", "a")),
        (("rename", "a", "c"), ("rename", "b", "a"), ("rename", "c", "b")),
        (("overwrite", "a"), ("append", "b")),
    ):
        each_kill(path, ops, last=False)


def change_at(model: Model, number: int, op: Op) -> Callable[[], None]:
    """Does an operation when it is called for the numberth time."""
    looks = itertools.count(1)

    def at_look() -> None:
        if next(looks) == number:
            model.change(op)

    return at_look


def renamed_meanwhile(path: Path) -> None:
    """A file moves between two directories while stock is taken of them."""
    for number in range(1, 8):
        for old, new in (("d/a", "e/a"), ("e/a", "d/a")):
            model = Model(path)
            run(model, (("mkdir", "d"), ("mkdir", "e"), ("create", "d/b"), ("create", "e/b")))
            model.change(("create", old))
            model._sleep(1)
            model.pass_over()
            model.at_look = change_at(model, number, ("rename", old, new))
            observed(model, lambda step: None)
            finish(model, (number, old))


def at_random(path: Path) -> None:
    for seed in range(600):
        one_at_random(path, seed)


def always(value: object) -> Callable[..., object]:
    return lambda *args, **named: value


def after_naming(patch: pytest.MonkeyPatch) -> None:
    """What was placed is written down when it has its name."""
    intend, done = placed.Placed.intend, placed.Placed.done

    def late(self: placed.Placed, path: bytes, copy: placed.Copy) -> None:
        intend(self, [(path, copy)])
        done(self, path, copy)

    patch.setattr(placed.Placed, "intend", always(None))
    patch.setattr(placed.Placed, "done", late)


def lease_once(patch: pytest.MonkeyPatch) -> None:
    """A file is not looked at again once it is copied."""
    settled, seen = passes.StageOut._is_settled, set[tuple[int, Source]]()

    def once(self: passes.StageOut, todo: passes.Todo) -> bool:
        version = (id(self), todo.source)
        if version in seen:
            return True
        seen.add(version)
        return settled(self, todo)

    patch.setattr(passes.StageOut, "_is_settled", once)


MUTATIONS: dict[str, tuple[Callable[[Path], None], Callable[[pytest.MonkeyPatch], None]]] = {
    "copies go while their bytes are wanted": (
        small, lambda patch: patch.setattr(passes.StageOut, "_is_nowhere", always(True))
    ),
    "renames while stock is taken are not counted": (
        renamed_meanwhile,
        lambda patch: patch.setattr(passes.StageOut, "_moves", always((0, 0))),
    ),
    "a file is known by its inode number alone": (
        at_random,
        lambda patch: patch.setattr(
            Identity, "of", staticmethod(lambda found: Identity(found.st_ino, 0, 0))
        ),
    ),
    "placed is written after the name is given": (small, after_naming),
    "the lease is asked for once": (at_random, lease_once),
    "the lease is not asked for": (
        at_random, lambda patch: patch.setattr(passes, "is_written", always(False))
    ),
    "bytes are not compared": (
        small, lambda patch: patch.setattr(passes.StageOut, "_has_its_bytes", always(True))
    ),
    "the order is that of names": (
        in_order, lambda patch: patch.setattr(passes, "_in_order", lambda each: each.name)
    ),
}  # fmt: skip


def gives_numbers_again(path: Path) -> bool:
    """Tells whether a new file gets the inode number of the one that was removed before it."""
    numbers = []
    for _ in range(2):
        path.write_text("")
        numbers.append(os.stat(path).st_ino)
        path.unlink()
    return numbers[0] == numbers[1]


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_each_condition_is_needed(
    path: Path, monkeypatch: pytest.MonkeyPatch, mutation: str
) -> None:
    program, mutate = MUTATIONS[mutation]
    if "inode number" in mutation and not gives_numbers_again(path):
        pytest.skip(
            "this file system does not give the inode number of a removed file again at once"
        )
    mutate(monkeypatch)
    with pytest.raises(AssertionError):
        program(path)


@pytest.mark.parametrize("program", [small, in_order, renamed_meanwhile])
def test_with_all_conditions(path: Path, program: Callable[[Path], None]) -> None:
    program(path)
