"""Random calls on the namespace of outputs and on a plain directory: every result, every errno and
the tree that is left must be equal."""

from __future__ import annotations

import asyncio
import os
import random
from pathlib import Path
from typing import Any

import pytest
from namespace_twin import OUTSIDE, Twin
from namespace_world import Cluster
from soak import combined, sampled

NAMES = [b"a", b"b", b"c", b"d"]
FLAGS = [
    os.O_RDONLY,
    os.O_RDONLY | os.O_NOFOLLOW,
    os.O_RDONLY | os.O_DIRECTORY,
    os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW,
    os.O_RDONLY | os.O_CREAT,
    os.O_RDONLY | os.O_TRUNC,
    os.O_WRONLY,
    os.O_RDWR,
    os.O_WRONLY | os.O_APPEND,
    os.O_WRONLY | os.O_TRUNC,
    os.O_WRONLY | os.O_CREAT,
    os.O_WRONLY | os.O_CREAT | os.O_APPEND,
    os.O_WRONLY | os.O_CREAT | os.O_TRUNC,
    os.O_WRONLY | os.O_CREAT | os.O_EXCL,
    os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW,
]

AS_ROOT = pytest.mark.skipif(
    os.geteuid() != 0, reason="for others than root it answers EACCES where the kernel does not"
)


class Dice:
    """What comes next."""

    def __init__(self, seed: int, root: bytes) -> None:
        self._random = random.Random(seed)
        self._root = root

    def path(self) -> bytes:
        """Mostly plain, at times with all that a path may have."""
        rng = self._random
        parts = [rng.choice(NAMES) for _ in range(rng.choice([1, 1, 2, 2, 3]))]
        if rng.random() < 0.12:
            odd = [b".", b"..", b"", b"x" * 255, b"x" * 256]
            parts.insert(rng.randrange(len(parts) + 1), rng.choice(odd))
        path = b"/".join(parts)
        if rng.random() < 0.06:
            path += rng.choice([b"/", b"//", b"/.", b"/.."])
        return path.lstrip(b"/")

    def target(self) -> bytes:
        """A link's."""
        rng = self._random
        if rng.random() < 0.3:
            return self._root + b"/" + self.path()
        return b"../" * rng.choice([0, 0, 0, 1, 1, 2]) + self.path() or b"."

    def step(self) -> tuple[Any, ...]:
        """A call and its arguments."""
        rng = self._random
        data = b"%d " % rng.randrange(1000) * rng.randrange(1, 40)
        calls = [
            (22, lambda: ("open", self.path(), rng.choice(FLAGS), data)),
            (12, lambda: ("open", self.path(), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, data)),
            (10, lambda: ("stat", self.path(), rng.random() < 0.5)),
            (5, lambda: ("names", self.path())),
            (18, lambda: ("mkdir", self.path(), rng.choice([0o777, 0o755, 0o700]))),
            (7, lambda: ("rmdir", self.path())),
            (8, lambda: ("unlink", self.path())),
            (24, lambda: ("rename", self.path(), self.path(), rng.choice([0, 0, 0, 1]))),
            (6, lambda: ("symlink", self.target(), self.path())),
            (4, lambda: ("truncate", self.path(), rng.choice([0, 1, 5, 100]))),
            (3, lambda: ("chmod", self.path(), rng.choice([0o644, 0o600, 0o755]))),
        ]
        weights = [weight for weight, _ in calls]
        return rng.choices(calls, weights)[0][1]()

    def below(self, bound: int) -> int:
        """A number."""
        return self._random.randrange(bound)


async def play(
    tmp_path: Path, seed: int, ranks: int, steps: int, held: bool = False
) -> dict[str, int]:
    """Steps of a random rank each. held: by one process, that keeps files open. How often which
    results came."""
    root = tmp_path / "root"
    root.mkdir()
    rng = random.Random(seed)
    cluster = Cluster(
        ranks, tmp_path / "objects", prefix=os.fsencode(root), delay=lambda: rng.randrange(3)
    )
    processes = [cluster.process(0)] if held else [cluster.process(r) for r in range(ranks)]
    twin = Twin(cluster, root, processes)
    dice = Dice(seed, os.fsencode(root))
    results: dict[str, int] = {}
    for _ in range(steps):
        if held and dice.below(6) == 0 and len(twin.files) < 4:
            await hold(twin, dice)
        elif twin.files and dice.below(12) == 0:
            await twin.let_go(dice.below(len(twin.files)))
        else:
            result = await twin.step(*dice.step(), who=dice.below(ranks))
            name = result if isinstance(result, str) else "done"
            results[name] = results.get(name, 0) + 1
    while twin.files:
        await twin.let_go(0)
    await twin.compare()
    await cluster.check_clean()
    cluster.world.close()
    return results


async def hold(twin: Twin, dice: Dice) -> None:
    """Opens a file for writing that is not open yet: of one that is open twice the plain directory
    has one version, the namespace two."""
    path = dice.path()
    if not os.path.lexists(os.path.join(twin.root, path)):
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        assert await twin.step("hold", path, flags, b"held") is not None


@AS_ROOT
@pytest.mark.parametrize("seed, ranks", combined(range(3), [1, 2, 4]))
def test_random_calls_do_what_they_do_in_a_plain_directory(
    tmp_path: Path, seed: int, ranks: int
) -> None:
    results = asyncio.run(play(tmp_path, seed, ranks, 800))
    # The dice are worth something: calls succeed and fail in many ways.
    assert results["done"] > 80
    assert len(results.keys() - {OUTSIDE}) > 6


@AS_ROOT
@pytest.mark.parametrize("seed", sampled(range(3), [0]))
def test_a_writer_sees_its_own_files_as_in_a_plain_directory(tmp_path: Path, seed: int) -> None:
    results = asyncio.run(play(tmp_path, seed, 2, 800, held=True))
    assert results["done"] > 80
