"""Runs an analysis, phase by phase: the job unchanged, training, preparation, both with all files
in memory, and fetches from storage and from memory, which replay the job's own reads."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

from fanstore.arrays import np
from fanstore.dataset import are_files, open_dataset
from fanstore.errors import FanstoreError
from fanstore.study.analyze.access import Access, Served, access_of, tried
from fanstore.study.analyze.analysis import NAMES, Analysis, Rate
from fanstore.study.analyze.phase import OF_THE_JOB, ORDER_NAME, AnalysisRequest, Ran, run_phase
from fanstore.study.analyze.rates import (
    Loader,
    ahead_samples,
    cached_after_drop,
    doubt,
    processor_s_of,
    rate_of_loader,
    rate_of_opens,
    rate_of_replay,
    training_loader,
)
from fanstore.study.analyze.reader import ReadReplay
from fanstore.trace import SOURCES, Trace, read_trace
from fanstore.trees import remove_tree

PHASES = ("job", "ingest", "prepare", "memory", "storage", "cache")
_READS_MOST = 200_000
_MEMORY_S = 2.0  # the least time of the replay from memory
_CACHED_MOST = 0.1
_WAITED_MOST = 0.02


class Analyzer:
    """Runs the phases in turn. `analysis` holds the results so far, which are valid even if a phase
    fails or is interrupted. tell: called with a line at the beginning of each phase, and for each
    result."""

    def __init__(self, request: AnalysisRequest, out: Path, tell: Callable[[str], None]) -> None:
        self._request = request
        self._out = out
        self._tell = tell
        self._loader: Loader | None = None
        self._access: Access | None = None
        self.analysis = Analysis(1, 1.0, len(os.sched_getaffinity(0)), whole=False)

    def run(self) -> None:
        """Runs all phases. Raises FanstoreError if the job itself fails."""
        # An absolute path, because processes of the job write there whatever their directory is.
        # (mkdtemp returns one from Python 3.12 on.)
        scratch = Path(os.path.abspath(tempfile.mkdtemp(prefix=".scratch-", dir=self._out)))
        try:
            for phase in PHASES:
                if phase == "memory" and self._loader is None:
                    continue  # its preparation has the training in it
                if phase == "ingest" and (self._loader is None or self._request.ingest):
                    continue
                self._tell(f"{NAMES[phase]} ...")
                directory = scratch / phase
                directory.mkdir()
                getattr(self, f"_{phase}")(directory)
                self._say(phase)
            self.analysis = replace(self.analysis, whole=True)
        finally:
            remove_tree(scratch)

    def _job(self, directory: Path) -> None:
        ran = self._run("job", directory, self._request.command)
        trace = read_trace(ran.trace)
        with self._served(trace) as served:
            access = self._access = access_of(trace, served, _READS_MOST)
            total_bytes = sum(_content_bytes(each) for each in served)
            compression = tried(served[0].dataset) if served else None
        loader = self._loader = training_loader(ran.records)
        if access.opens == 0:
            raise FanstoreError("the job opened no file of a dataset: there is nothing to analyse")
        if loader is None:
            self._note("no DataLoader of torch was seen: a sample is an opened file, and training "
                       "is part of preparation")  # fmt: skip
            sample_bytes, samples = access.opened_bytes, total_bytes / max(1, access.opened_bytes)
            rate = rate_of_opens(access)
        else:
            read = loader.got + ahead_samples(ran.records, loader.number)
            sample_bytes = access.sample_bytes(read)
            samples = loader.samples or total_bytes / max(1.0, sample_bytes)
            rate = rate_of_loader(ran.records, loader.number)
        nodes = max(1, len({rank.get("host") for rank in trace.ranks}))
        self.analysis = replace(
            self.analysis, samples=max(1, round(samples)), sample_bytes=max(1.0, sample_bytes),
            workers=None if loader is None else loader.workers // nodes, compression=compression,
            nodes=nodes, near=_waited_share(trace) <= _WAITED_MOST,
        )  # fmt: skip
        self._add("job", rate, ran)

    def _ingest(self, directory: Path) -> None:
        ran = self._run("ingest", directory, self._request.command)
        self._add("ingest", self._rate(ran), ran)
        self._note_processors("ingest", ran)

    def _memory(self, directory: Path) -> None:
        ran = self._run("memory", directory, self._request.command)
        self._add("memory", self._rate(ran), ran)

    def _prepare(self, directory: Path) -> None:
        ran = self._run("prepare", directory, self._request.command)
        trace = read_trace(ran.trace)
        if self._loader is None:
            with self._served(trace) as served:
                rate = rate_of_opens(access_of(trace, served, 0))
        else:
            rate = self._rate(ran)
        if _waited_share(trace) > _WAITED_MOST:
            self._note("preparation waited for bytes that memory had no room for: P is too low")
        self._add("prepare", rate, ran)
        if self._loader is not None:
            self._note_processors("prepare", ran)

    def _storage(self, directory: Path) -> None:
        self._replay("storage", directory, 0.0)
        cached = cached_after_drop(directory)
        if cached is None:
            self._note("only the owner of the packs can see whether their pages were dropped")
        elif cached > _CACHED_MOST:
            self._note(f"WORTHLESS: {100 * cached:.0f} % of the packs stayed in memory, which "
                       "cannot be dropped here: S is a rate of memory")  # fmt: skip
            rate = self.analysis.of("storage")
            rates = {**self.analysis.rates, "storage": Rate(rate, 0.0, 2 * rate)}
            self.analysis = replace(self.analysis, rates=rates)

    def _cache(self, directory: Path) -> None:
        self._replay("cache", directory, _MEMORY_S)
        if self.analysis.of("cache") < self.analysis.of("storage"):
            self._note("memory was read no faster than storage: S is bound by the number of reads, "
                       "or the machine was busy")  # fmt: skip

    def _replay(self, phase: str, directory: Path, least_s: float) -> None:
        assert self._access is not None
        packs = [
            os.fspath(path)
            for each in self._request.datasets
            for path in sorted(Path(each).absolute().glob("*.fsp"))
        ]
        if all(self._access.lists):
            self._write_orders(directory)
        replay = ReadReplay(self._access.lists, least_s, packs if phase == "storage" else [])
        lists, found = directory / "lists", directory / "found"
        found.mkdir()
        lists.write_text(json.dumps(asdict(replay)))
        command = [sys.executable, "-m", "fanstore.study.analyze.reader", str(lists), str(found)]
        ran = self._run(phase, directory, command)
        rate = rate_of_replay(found)
        if rate is not None:
            per_sample = self.analysis.sample_bytes
            rate = Rate(*(each / per_sample for each in (rate.samples_per_s, rate.low, rate.high)))
        self._add(phase, rate, ran)
        for path in found.glob("cached-*.json"):
            path.rename(directory / path.name)

    def _write_orders(self, directory: Path) -> None:
        """Writes the order of a replay for each rank."""
        assert self._access is not None
        for rank, readers in enumerate(self._access.lists):
            parts = (part for row in zip_longest(*readers) for part in row if part)
            paths = [os.fsencode(path) for path in dict.fromkeys(path for path, _ in parts)]
            escaped = [path.replace(b"\\", b"\\\\").replace(b"\n", b"\\n") for path in paths]
            (directory / ORDER_NAME.format(rank=rank)).write_bytes(b"\n".join([*escaped, b""]))

    def _run(self, phase: str, directory: Path, command: Sequence[str]) -> Ran:
        number = None if self._loader is None else self._loader.number
        asked = {
            "phase": phase, "steps": self._request.steps, "directory": os.fspath(directory),
            "loader": number,
        }  # fmt: skip
        environ = self._request.environ(phase)
        if phase in OF_THE_JOB:
            environ["FANSTORE_ANALYZE"] = json.dumps(asked)
        words = self._request.words(phase, os.fspath(directory), command)
        return run_phase(words, environ, directory, self._request.limit_s)

    def _rate(self, ran: Ran) -> Rate | None:
        assert self._loader is not None
        return rate_of_loader(ran.records, self._loader.number)

    @contextmanager
    def _served(self, trace: Trace) -> Iterator[list[Served]]:
        by_dataset = zip(*(rank["datasets"] for rank in trace.ranks), strict=True)
        with ExitStack() as stack:
            yield [
                Served(
                    tuple(each["mount_prefix"] for each in told),
                    stack.enter_context(open_dataset(told[0]["directory"])),
                )
                for told in by_dataset
            ]

    def _add(self, phase: str, rate: Rate | None, ran: Ran) -> None:
        if rate is None:
            self._note(f"WORTHLESS: {NAMES[phase]} was not measured: too few steps")
            return
        rates = {**self.analysis.rates, phase: rate}
        self.analysis = replace(self.analysis, rates=rates)
        if ran.cut_off:
            self._note(f"{NAMES[phase]} was cut off after {self._request.limit_s:g} s")
        doubtful = doubt(NAMES[phase], rate)
        if doubtful:
            self._note(doubtful)

    def _note_processors(self, phase: str, ran: Ran) -> None:
        assert self._loader is not None
        took_s = processor_s_of(ran.records, self._loader.number)
        if took_s:
            known = {**self.analysis.processor_s, phase: took_s}
            self.analysis = replace(self.analysis, processor_s=known)

    def _note(self, text: str) -> None:
        self.analysis = replace(self.analysis, notes=(*self.analysis.notes, text))

    def _say(self, phase: str) -> None:
        rate = self.analysis.rates.get(phase)
        if rate is not None:
            low, high = rate.low, rate.high
            self._tell(f"  {rate.samples_per_s:,.1f} samples/s ({low:,.1f} to {high:,.1f})")


def _content_bytes(served: Served) -> int:
    records: Any = served.dataset.records
    return int(records["logical_size"][are_files(records)].astype(np.int64).sum())


def _waited_share(trace: Trace) -> float:
    """Returns the part of the time of all reading programs that they waited for the shared file
    system or another rank."""
    waited_ns = trace.stall_ns()[:, [SOURCES.index("shared"), SOURCES.index("rank")]].sum()
    opens = trace.opens["time_ns"]
    reading = max(1, int((np.bincount(trace.opens["process"], minlength=1) > 0).sum()))
    span_ns = int(opens[-1] - opens[0]) if len(opens) else 0
    return float(waited_ns) / max(1, span_ns * reading)
