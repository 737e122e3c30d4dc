"""The page and the command: odd names, damaged traces, missing matplotlib, where things go."""

from __future__ import annotations

import importlib.util
import json
import os
import random
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from inprocess import call
from serving import Stage, make_stage
from soak import one_of, sampled
from trace_files import BASE_NS, RankTrace, trace_bytes, write_trace

from fanstore._native import lib
from fanstore.trace.sections import TraceSection, encode, file_header

HAS_PLOTS = importlib.util.find_spec("matplotlib") is not None
needs_plots = pytest.mark.skipif(
    not HAS_PLOTS, reason="pages need matplotlib: pip install 'fanstore-fs[plots]'"
)
PAGE_MAX_BYTES = 2 << 20
WITHOUT_PLOTS = (
    "import importlib.util as util\n"
    "found = util.find_spec\n"
    "util.find_spec = lambda name, *rest: name != 'matplotlib' and found(name, *rest) or None\n"
)


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return make_stage(tmp_path)


def small_rank(rank: int = 0, files: int = 3, **about: Any) -> RankTrace:
    made = RankTrace(rank, **about)
    program = made.process(7, "<b>python")
    for n in range(files * 2):
        made.open(program, n * 10**7, n % files)
        made.stall(program, n * 10**7 + 10**6, "disk", 10**6, n % files)
    made.sample(10**8, opens=6, read_bytes=6000, cache_bytes=10, cache_used_bytes=3, published=2)
    return made


class Seen(HTMLParser):
    """What a browser would find in a page: elements, addresses that it could fetch, and texts."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: set[str] = set()
        self.ids: list[str] = []
        self.addresses: list[str] = []
        self.texts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.add(tag)
        for name, value in attrs:
            if name in ("src", "href", "xlink:href", "action"):
                self.addresses.append(value or "")
            if name == "id":
                self.ids.append(value or "")

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


@needs_plots
def test_a_page_fetches_nothing_and_is_small(tmp_path: Path) -> None:
    trace = write_trace(tmp_path / "t", *(small_rank(n, 500, world_size=9) for n in range(9)))
    assert call("report", trace).code == 0
    page = (tmp_path / "t.html").read_text()
    seen = Seen(page)
    assert all(each.startswith(("#", "data:image/png;base64,")) for each in seen.addresses)
    assert "script" not in seen.elements and "link" not in seen.elements
    assert not re.findall(r"url\((?!#)|@import", page)
    assert len(page) < PAGE_MAX_BYTES
    assert len(seen.ids) == len(set(seen.ids))
    assert json.loads((tmp_path / "t.json").read_text())["headline"] in "".join(seen.texts)


@needs_plots
def test_odd_names_are_shown_and_do_nothing(stage: Stage) -> None:
    source = stage.path / "src"
    names = [b"<script>alert(1)<br>", b"caf\xe9\xff", b"new\nline", "r\u202eotl".encode(), b"&amp;"]
    for name in names:
        (source / os.fsdecode(name)).mkdir(parents=True)
        (source / os.fsdecode(name) / "f&<b>").write_bytes(b"x")
    dataset = stage.path / "odd.fan"
    assert call("prepare", source, dataset).code == 0
    info = json.loads(call("info", "--json", dataset).stdout)
    told = {"name": "<i>odd", "directory": str(dataset), "dataset_id": info["dataset_id"],
            "mount_prefix": "/<i>m"}  # fmt: skip
    rank = small_rank(files=9, datasets=[told], host="<i>host")
    out = stage.path / "out.html"
    assert call("report", write_trace(stage.path / "t", rank), "--out", out).code == 0
    seen = Seen(out.read_text(encoding="utf-8"))
    assert not {"script", "b", "i", "br"} & seen.elements
    text = "".join(seen.texts)
    for shown in ("<script>alert(1)<br>", "caf\\xe9\\xff", "new\\nline", "r\\u202eotl", "&amp;"):
        assert shown in text, shown
    files = json.loads(out.with_suffix(".json").read_text())["files"]
    assert (files["dataset_files"], files["never_count"]) == (5, 2)  # records 6, 7, 8 are files


def test_files_that_were_never_read_are_named(stage: Stage) -> None:
    dataset = stage.dataset(stage.source(files={"a": b"1", "d/b": b"22", "d/c": b"333"}))
    info = json.loads(call("info", "--json", dataset).stdout)
    rank = RankTrace(datasets=[{"directory": "/moved", "dataset_id": info["dataset_id"]}])
    rank.open(rank.process(1), 10**9, 1)  # a
    trace = write_trace(stage.path / "t", rank)
    assert json.loads(call("report", "--json", trace).stdout)["files"]["dataset_files"] == 0
    found = json.loads(call("report", "--json", "--dataset", dataset, trace).stdout)["files"]
    assert found["never_shown"] == ["d/b", "d/c"]
    assert (found["never_bytes"], found["dataset_bytes"]) == (5, 6)


def test_an_index_of_another_dataset_is_not_believed(stage: Stage) -> None:
    dataset = stage.dataset(stage.source(files={"a": b"1"}))
    rank = small_rank(datasets=[{"directory": str(dataset), "dataset_id": "00" * 16}])
    found = json.loads(call("report", "--json", write_trace(stage.path / "t", rank)).stdout)
    assert found["files"]["dataset_files"] == 0


def test_a_dataset_that_is_named_and_not_the_jobs_is_refused(stage: Stage) -> None:
    dataset = stage.dataset(stage.source(files={"a": b"1"}))
    other = {"directory": "/moved", "dataset_id": "00" * 16}
    trace = write_trace(stage.path / "t", small_rank(datasets=[other]))
    for named, said in (
        ([dataset], "another dataset than the job's"),
        ([stage.path / "none"], "none: no such directory"),
        ([dataset, dataset], "the job had 1, and 2 are named"),
    ):
        options = [each for one in named for each in ("--dataset", one)]
        assert said in call("report", "--json", *options, trace, code=2).stderr
    assert not list(stage.path.glob("*.html"))


@needs_plots
@pytest.mark.soak
def test_a_torn_trace_is_shown_up_to_the_damage(tmp_path: Path) -> None:
    whole = trace_bytes(small_rank(world_size=2), small_rank(1, world_size=2))
    (tmp_path / "t").write_bytes(whole[:-20])
    assert call("report", tmp_path / "t").code == 0
    assert "The trace is not whole: " in (tmp_path / "t.html").read_text()


def test_what_is_no_trace_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t").write_bytes(b"x" * 100)
    done = call("report", tmp_path / "t", code=None)
    assert done.code == 125
    assert "not a trace of FanStore's" in done.stderr
    assert os.listdir(tmp_path) == ["t"]
    assert call("report", tmp_path / "none", code=None).code == 2


HOSTILE: list[Any] = [
    {"datasets": 5}, {"datasets": [5, None, {"name": 3, "directory": ["/"], "pack_ranks": 7}]},
    {"datasets": [{"directory": "a\0b", "dataset_id": 1, "bounds": [-1, "x"]}] * 99},
    {"datasets": [{"pack_ranks": [[1e300], [None], [1 << 61]], "bounds": [1 << 61, 0]}]},
    {"world_size": -5}, {"world_size": 1 << 99}, {"job_id": {"a": "\ud800"}},
    {"host": "\ud800\x1b"},
    {"base_realtime_ns": (1 << 61) - 1}, {"base_realtime_ns": 0}, {"job_id": "\x00<script>"},
]  # fmt: skip


@pytest.mark.parametrize("about", sampled(HOSTILE, HOSTILE[:2]), ids=range(len(HOSTILE)))
def test_a_hostile_trace_ends_nothing(tmp_path: Path, about: dict[str, Any]) -> None:
    rank = small_rank()
    rank.about.update(about)
    trace = write_trace(tmp_path / "t", rank)
    assert call("report", "--json", trace).code == 0
    if HAS_PLOTS:
        assert call("report", trace).code == 0


LAST: list[Any] = [
    b"\xff", b"[" * 100_000, b"[]", b"5", b'{"order": 3, "node": []}',
    {"order": {"epochs": 1 << 99, "predicted": -4, "samplers": {"<b>": "x", "y": [1]}}},
    {"order": {"epochs": 3, "predicted": 1e9, "samplers": [7]}, "node": {"ahead": {}}},
    {"order": {"epochs": 3, "samplers": {"<script>" * 99: 8}}, "node": {"ahead": 7}},
]  # fmt: skip


@pytest.mark.parametrize("last", one_of(4, LAST), ids=range(len(LAST)))
def test_hostile_counts_of_what_was_foreseen_end_nothing(tmp_path: Path, last: Any) -> None:
    rank = small_rank()
    rank.last = last if isinstance(last, bytes) else json.dumps(last).encode()
    trace = write_trace(tmp_path / "t", rank)
    assert call("report", "--json", trace).code == 0
    if HAS_PLOTS:
        assert call("report", trace).code == 0
        assert "<script>" * 2 not in (tmp_path / "t.html").read_text()


def test_random_notes_and_counts_end_nothing(tmp_path: Path) -> None:
    """Sections with sound checksums around what nobody would write."""
    chance = random.Random(5)
    for _ in range(20):
        rank = small_rank()
        rank.notes[1] += [chance.getrandbits(64) for _ in range(200)]
        rank.processes = np.frombuffer(
            chance.randbytes(rank.processes.nbytes), rank.processes.dtype
        )
        rank.processes = rank.processes.copy()
        for name in ("start_ns", "end_ns"):
            rank.processes[name] >>= np.uint64(4)
        samples = chance.randbytes(rank.samples.nbytes * 4)
        rank.samples = np.frombuffer(samples, rank.samples.dtype).copy()
        rank.samples["time_ns"] >>= np.uint64(4)
        call("report", "--json", write_trace(tmp_path / "t", rank))


def test_times_beyond_all_jobs_are_damage(tmp_path: Path) -> None:
    rank = small_rank()
    rank.sample(1 << 63)
    done = call("report", "--json", write_trace(tmp_path / "t", rank))
    assert "beyond all that a job can last" in json.loads(done.stdout)["problem"]


def test_sections_of_no_rank_make_an_empty_report(tmp_path: Path) -> None:
    only_end = TraceSection(int(lib.FAN_TRACE_END), 3, b"")
    (tmp_path / "t").write_bytes(file_header() + encode(only_end))
    assert json.loads(call("report", "--json", tmp_path / "t").stdout)["world_size"] == 1
    (tmp_path / "t").write_bytes(file_header())
    assert json.loads(call("report", "--json", tmp_path / "t").stdout)["ranks"] == []


@needs_plots
@pytest.mark.soak
def test_a_report_replaces_another_and_leaves_nothing_else(tmp_path: Path) -> None:
    trace = write_trace(tmp_path / "t", small_rank())
    out = tmp_path / "a" / "b"
    for _ in range(2):
        done = call("report", trace, "--out", out)
        assert done.stdout.decode().split() == [f"{out}/report.html", f"{out}/report.json"]
    assert sorted(os.listdir(out)) == ["report.html", "report.json"]
    written = json.loads((out / "report.json").read_text())
    assert written == json.loads(call("report", "--json", trace).stdout)
    assert written["start"] == pytest.approx(BASE_NS / 1e9)


def test_a_place_that_takes_nothing_is_named(tmp_path: Path) -> None:
    trace = write_trace(tmp_path / "t", small_rank())
    done = call("report", trace, "--out", trace / "x", code=None)
    assert done.code == 2 and f"{trace} is not a directory" in done.stderr


def test_without_matplotlib_there_is_json_and_a_hint(tmp_path: Path) -> None:
    trace = write_trace(tmp_path / "t", small_rank())
    code = f"{WITHOUT_PLOTS}from fanstore.__main__ import main; main()"
    command = [sys.executable, "-c", code, "report", str(trace)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 125
    assert "matplotlib, which is not installed: pip install 'fanstore-fs[plots]'" in done.stderr
    assert sorted(os.listdir(tmp_path)) == ["t", "t.json"]
