"""Stretches come to memory by large reads, once an epoch, and no more than memory may hold."""

from __future__ import annotations

import os
import pickle
import re
from pathlib import Path
from typing import Any

import pytest
from serving import find_content, flip, make_stage

torch = pytest.importorskip("torch", reason="torch is not installed")

from torch.utils.data import DataLoader, Dataset  # noqa: E402

from fanstore.errors import DatasetDamaged, FanstoreError  # noqa: E402
from fanstore.torch import OpportunisticSampler, StretchMemory, staged_keepers  # noqa: E402

COUNT, STRETCH, SIZE = 400, 20, 20_000


class Made:
    """A packed dataset of 400 files in four directories, and the names of its samples, sorted."""

    def __init__(self, path: Path, *options: str) -> None:
        files = {
            f"{n // 100}/{n:03}": os.urandom(SIZE // 2 + n) + bytes([n % 256]) * (SIZE // 2)
            for n in range(COUNT)
        }
        self.stage = make_stage(path)
        self.path = self.stage.dataset(self.stage.source("plain", files), "data", *options)
        self.names = sorted(files)
        self.contents = [files[name] for name in self.names]

    def drop_caches(self) -> None:
        """Has the packs be read from the disk the next time."""
        for pack in self.path.glob("pack-*"):
            with pack.open("rb") as stream:
                os.fsync(stream.fileno())
                os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


class Samples(Dataset):  # type: ignore[misc]
    def __init__(self, memory: StretchMemory) -> None:
        self.memory = memory

    def __len__(self) -> int:
        return len(self.memory)

    def __getitem__(self, index: int) -> tuple[int, bytes]:
        return index, self.memory[index]


def sampler_of(memory: StretchMemory, *place: int, **options: Any) -> OpportunisticSampler:
    chosen = {"memory_share": 0.25, "read_samples": STRETCH, **options}
    return OpportunisticSampler(Samples(memory), *place, memory=memory, **chosen)


def figure(file: str, name: str) -> int:
    found = re.search(rf"^{name}:\s+(\d+)", Path("/proc/self", file).read_text(), re.MULTILINE)
    assert found
    return int(found[1])


@pytest.mark.parametrize("codec", ((), ("--codec", "zstd")), ids=("stored", "zstd"))
def test_each_byte_is_read_once_an_epoch_in_large_reads(tmp_path: Path, codec: Any) -> None:
    made = Made(tmp_path, *codec)
    memory = StretchMemory(made.path, made.names)
    sampler = sampler_of(memory)
    stored = sum(pack.stat().st_size for pack in made.path.glob("pack-*"))
    before_kb = figure("status", "RssShmem")
    for epoch in range(3):
        made.drop_caches()
        memory.stretch_reads = memory.stretch_bytes = 0
        disk = figure("io", "read_bytes")
        sampler.set_epoch(epoch)
        seen, most_kb = [], 0
        for index in sampler:
            seen.append(index)
            assert memory[index] == made.contents[index]
            most_kb = max(most_kb, figure("status", "RssShmem") - before_kb)
        assert sorted(seen) == list(range(COUNT))
        assert memory.single_reads == 0
        assert COUNT // STRETCH <= memory.stretch_reads <= COUNT // STRETCH + 1  # of two packs
        assert 0.95 * stored < memory.stretch_bytes <= stored
        # A quarter, the stretch that is ahead, and what pages are larger than samples.
        room = -(-(SIZE + COUNT) // 4096) * 4
        assert most_kb <= (COUNT // 4 + 2 * STRETCH) * room + 512
        read = figure("io", "read_bytes") - disk
        assert read == 0 or read < 1.3 * stored  # 0: the packs are on no disk (tmpfs)


@pytest.mark.parametrize("ranks", (2, 4))
def test_ranks_read_each_byte_once_in_all(tmp_path: Path, ranks: int) -> None:
    made = Made(tmp_path)
    stored = sum(pack.stat().st_size for pack in made.path.glob("pack-*"))
    reads = bytes_read = 0
    seen: list[int] = []
    for rank in range(ranks):
        memory = StretchMemory(made.path, made.names)
        sampler = sampler_of(memory, ranks, rank, memory_share=0.5, level_min=0.5)
        before_kb, most_kb = figure("status", "RssShmem"), 0
        for index in sampler:
            seen.append(index)
            assert memory[index] == made.contents[index]
            most_kb = max(most_kb, figure("status", "RssShmem") - before_kb)
        assert memory.single_reads == 0
        assert (
            most_kb <= (COUNT // 2 // ranks + 2 * STRETCH) * (-(-(SIZE + COUNT) // 4096) * 4) + 512
        )
        reads, bytes_read = reads + memory.stretch_reads, bytes_read + memory.stretch_bytes
        memory.close()
    assert sorted(seen) == list(range(COUNT))
    # Two packs, and a stretch that two ranks share is read in two parts.
    assert COUNT // STRETCH <= reads <= COUNT // STRETCH + 1 + ranks - 1
    assert 0.95 * stored < bytes_read <= stored


@pytest.mark.parametrize("workers", (0, 2))
def test_it_serves_a_loader(tmp_path: Path, workers: int) -> None:
    made = Made(tmp_path)
    memory = StretchMemory(made.path, made.names)
    context = "fork" if workers else None
    loader = DataLoader(
        Samples(memory), batch_size=10, sampler=sampler_of(memory), num_workers=workers,
        multiprocessing_context=context, collate_fn=list,
    )  # fmt: skip
    loader.sampler.set_epoch(1)
    next(iter(loader))  # an epoch that is broken off
    for epoch in range(2):
        loader.sampler.set_epoch(epoch)
        found = dict(sample for batch in loader for sample in batch)
        assert [found[index] for index in range(COUNT)] == made.contents


def test_what_is_not_in_memory_is_read_by_itself(tmp_path: Path) -> None:
    made = Made(tmp_path)
    memory = StretchMemory(made.path, made.names)
    memory.read(range(5, 25))
    assert [memory[index] for index in (5, 5, 3, -1)] == [
        made.contents[index] for index in (5, 5, 3, -1)
    ]
    assert memory.single_reads == 3
    memory.clear()
    assert memory[6] == made.contents[6] and memory.single_reads == 4
    for wrong in (COUNT, -COUNT - 1):
        with pytest.raises(IndexError):
            memory[wrong]
    with pytest.raises(TypeError, match="fork"):
        pickle.dumps(memory)
    memory.close()
    with pytest.raises(ValueError, match="closed"):
        memory[0]


def test_damage_is_raised_where_the_samples_are_drawn(tmp_path: Path) -> None:
    made = Made(tmp_path)
    flip(*find_content(made.path, made.contents[7]))
    memory = StretchMemory(made.path, made.names)
    with pytest.raises(DatasetDamaged, match="content of 0/007"):
        list(sampler_of(memory))
    with pytest.raises(DatasetDamaged, match="content of 0/007"):
        memory[7]


def test_a_dataset_that_goes_is_an_error_of_the_draw(tmp_path: Path) -> None:
    made = Made(tmp_path)
    memory = StretchMemory(made.path, made.names)
    for pack in made.path.glob("pack-*"):
        pack.unlink()
    with pytest.raises(FileNotFoundError, match="pack-0000"):
        list(sampler_of(memory))


def test_an_iteration_that_lost_its_memory_ends(tmp_path: Path) -> None:
    made = Made(tmp_path)
    sampler = sampler_of(StretchMemory(made.path, made.names))
    first, second = iter(sampler), iter(sampler)
    next(first), next(second)
    with pytest.raises(RuntimeError, match="later iteration"):
        list(first)
    assert len(list(second)) == COUNT - 1


def test_too_little_memory_is_refused_with_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Made(tmp_path)
    memory = StretchMemory(made.path, made.names)
    monkeypatch.setattr("fanstore.torch.samplers.opportunistic.left_bytes", lambda: 2 << 20)
    with pytest.raises(ValueError, match=r"takes 2\.\d MiB; 2\.0 MiB of memory are left"):
        sampler_of(memory)


@pytest.mark.parametrize("nodes", (1, 2, 3))
def test_keepers_are_those_of_the_packs(tmp_path: Path, nodes: int) -> None:
    made = Made(tmp_path, "--replicate", "3/*")
    found = staged_keepers(made.path, made.names, nodes)
    held = [find_content(made.path, content)[0].name for content in made.contents]
    for name, pack, keeper in zip(made.names, held, found.tolist(), strict=True):
        everywhere = name.startswith("3/") and nodes > 1
        assert keeper == (-1 if everywhere else int(pack[5:10]) % nodes)
    assert {"pack-00000.fsp", "pack-00001.fsp", "pack-00002.fsp"} == set(held)
    for wrong in (0, 1.5):
        with pytest.raises(ValueError, match="nodes is"):
            staged_keepers(made.path, made.names, wrong)  # type: ignore[arg-type]


def test_what_makes_no_sense_is_refused(tmp_path: Path) -> None:
    made = Made(tmp_path)
    with pytest.raises(FanstoreError, match="no such directory"):
        StretchMemory(tmp_path / "nowhere", made.names)
    with pytest.raises(FileNotFoundError):
        StretchMemory(made.path, ["0/000", "0/nothing"])
    with pytest.raises(IsADirectoryError, match="0: no regular file"):
        StretchMemory(made.path, ["0/000", "0"])
    memory = StretchMemory(made.path, made.names[:-1])
    with pytest.raises(ValueError, match="memory has 399 samples"):
        OpportunisticSampler(made.names, memory_share=1, memory=memory)
    with pytest.raises(ValueError, match="for each of 2 memories"):
        OpportunisticSampler(made.names[:-1], 2, 0, memory_share=0.2, memory=memory)
