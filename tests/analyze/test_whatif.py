"""What an analysis foretells, from made-up rates."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from inprocess import call

from fanstore.study.analyze.analysis import Analysis, Rate, read
from fanstore.study.analyze.prediction import Hardware, predict
from fanstore.study.analyze.session import write_report
from fanstore.study.analyze.verdict import lines

SAMPLES, SAMPLE_BYTES = 1000, 100_000.0


def analysis(ingest: float | None, prepare: float, storage: float, cache: float) -> Analysis:
    rates = {"ingest": ingest, "prepare": prepare, "storage": storage, "cache": cache}
    given = {name: Rate(rate, rate, rate) for name, rate in rates.items() if rate is not None}
    return Analysis(SAMPLES, SAMPLE_BYTES, 4, given, workers=4)


def kept(part: float) -> Hardware:
    return Hardware(local_bytes=round(part * SAMPLES * SAMPLE_BYTES))


def cached(part: float) -> Hardware:
    return Hardware(cache_bytes=round(part * SAMPLES * SAMPLE_BYTES))


@pytest.fixture
def report(tmp_path: Path) -> Path:
    path = tmp_path / "job.json"
    path.write_text(json.dumps(analysis(400, 300, 100, 10_000).as_dict()))
    return path


@pytest.mark.parametrize(
    ("rates", "limits"),
    [
        ((100, 300, 300, 9000), ("ingest",)),
        ((300, 100, 300, 9000), ("prepare",)),
        ((300, 300, 100, 9000), ("fetch",)),
        ((101, 100, 300, 9000), ("ingest", "prepare")),
        ((300, 100, 101, 9000), ("prepare", "fetch")),
        ((100, 300, 103, 9000), ("ingest",)),
        ((None, 100, 300, 9000), ("prepare",)),
    ],
)
def test_the_slowest_stage_limits(rates: tuple[float, ...], limits: tuple[str, ...]) -> None:
    assert predict(analysis(*rates), cached(0)).limits == limits


def test_stalls_are_parts_of_the_time() -> None:
    found = predict(analysis(400, 300, 100, 1e6), cached(0))
    assert found.samples_per_s == 100
    assert found.fetch_stall == pytest.approx(1 - 100 / 300)
    assert found.prepare_stall == pytest.approx(100 / 300 - 100 / 400)


@pytest.mark.parametrize("storage", [20, 100, 250])
def test_the_smallest_part_to_keep_is_where_the_fetch_stall_ends(storage: float) -> None:
    rates = analysis(400, 300, storage, 10_000)
    least = predict(rates, cached(0)).min_kept
    assert predict(rates, kept(least)).fetch_stall < 0.001
    assert predict(rates, kept(least - 0.05)).fetch_stall > 0.01


def test_the_storage_workers_and_cores_that_are_said_to_do_end_the_stall() -> None:
    slow_disk = analysis(400, 300, 50, 10_000)
    needed = predict(slow_disk, kept(0.35)).min_storage_bytes_per_s
    with_it = replace(kept(0.35), storage_bytes_per_s=needed)
    assert predict(slow_disk, with_it).fetch_stall == pytest.approx(0, abs=1e-9)
    for shared in (replace(kept(0.35), jobs=4), replace(kept(0), codec="zstd")):
        packed = {"ratio": 2.0, "decode_bytes_per_s": 1e12}
        asked = replace(slow_disk, compression=packed)
        needed = predict(asked, shared).min_storage_bytes_per_s
        assert needed is not None
        exact, less = (replace(shared, storage_bytes_per_s=part * needed) for part in (1, 0.9))
        assert predict(asked, exact).fetch_stall == pytest.approx(0, abs=1e-9)
        assert predict(asked, less).fetch_stall > 0.05
    few = replace(analysis(400, 100, 1000, 10_000), workers=2)
    found = predict(few, cached(0))
    assert (found.min_cores, found.min_workers) == (16, 8)
    for enough, less in ((Hardware(cores=16), Hardware(cores=14)),
                         (Hardware(workers=8), Hardware(workers=7))):  # fmt: skip
        assert predict(few, enough).limits == ("ingest", "prepare")
        assert predict(few, less).prepare_stall > 0


def test_workers_add_up_until_all_cores_are_busy() -> None:
    two = replace(analysis(1e6, 100, 1e6, 1e6), workers=2, processor_s={"prepare": 0.02})
    speeds = [predict(two, Hardware(workers=n)).samples_per_s for n in (1, 2, 4, 8)]
    assert speeds == pytest.approx([50, 100, 200, 200])
    assert predict(two, Hardware(workers=8, cores=8)).samples_per_s == pytest.approx(400)
    busy = replace(two, workers=8, processor_s={"prepare": 0.04})
    assert predict(busy, Hardware(workers=16)).samples_per_s == pytest.approx(100)
    assert predict(busy, Hardware(cores=8)).samples_per_s == pytest.approx(200)


def test_storage_is_read_all_the_time_while_a_part_is_kept() -> None:
    rates = analysis(400, 300, 100, 1e9)
    passing = (2 << 20) / (SAMPLES * SAMPLE_BYTES)
    assert predict(rates, cached(0.35)).samples_per_s == pytest.approx(100 / (0.65 - passing))
    assert predict(rates, cached(0.35)).limits == ("fetch",)
    assert predict(rates, kept(0.35)).samples_per_s == pytest.approx(100 / 0.65)
    assert predict(rates, cached(1)).samples_per_s == 300
    both = replace(kept(0.25), cache_bytes=cached(0.25).cache_bytes)
    assert predict(rates, both).samples_per_s == pytest.approx(100 / (0.5 - passing))


def test_the_job_is_no_faster_than_it_was_with_all_files_in_memory() -> None:
    rates = analysis(400, 300, 100, 1e6).with_rate("memory", 240)
    assert predict(rates, kept(1)).samples_per_s == pytest.approx(240)
    assert predict(rates, replace(kept(1), training=2)).samples_per_s == pytest.approx(240)
    twice = replace(kept(1), workers=8, training=2)
    assert predict(rates, twice).samples_per_s == pytest.approx(480)


def test_training_and_preparation_share_their_cores() -> None:
    shared = replace(
        analysis(400, 300, 1000, 10_000), processor_s={"ingest": 0.012, "prepare": 0.008}
    )
    found = predict(shared, cached(0))
    assert (found.limits, found.samples_per_s) == (("cores",), pytest.approx(4 / 0.02))
    assert found.prepare_stall == pytest.approx(1 - 200 / 400)
    assert predict(shared, Hardware(nodes=2)).samples_per_s == pytest.approx(2 * 4 / 0.02)
    assert (found.min_cores, found.min_workers) == (8, None)
    assert "cores" in predict(shared, Hardware(cores=8)).limits
    assert predict(shared, Hardware(cores=9)).limits == ("ingest",)
    assert predict(replace(shared, workers=0), cached(0)).limits != ("cores",)


def test_a_loader_without_workers_takes_turns_with_training() -> None:
    turns = replace(analysis(200, 200, 1000, 10_000), workers=0)
    assert predict(turns, kept(1)).samples_per_s == pytest.approx(100)
    assert predict(turns, replace(kept(1), workers=1)).samples_per_s == pytest.approx(200)
    as_slow = replace(analysis(200, 200, 101, 10_000), workers=0)
    assert "give the loader workers (num_workers)" in next(lines(as_slow))


def test_compression_makes_room_and_takes_time() -> None:
    packed = {"ratio": 2.0, "decode_bytes_per_s": 100_000_000.0}
    rates = replace(analysis(400, 300, 100, 10_000), compression=packed)
    assert predict(rates, Hardware(codec="zstd")).samples_per_s == pytest.approx(200)
    assert predict(rates, replace(kept(0.25), codec="zstd")).kept == pytest.approx(0.5)
    decoding = 1 / (1 / 300 + 0.001 / 4)
    assert predict(rates, replace(kept(1), codec="zstd")).samples_per_s == pytest.approx(decoding)


def test_jobs_that_share_cores_gain_what_their_training_leaves() -> None:
    took_s = {"ingest": 0.01, "prepare": 0.03}
    shared = replace(analysis(1000, 600, 200, 50_000), processor_s=took_s)
    near = replace(kept(1), jobs=2)
    assert predict(shared, near).samples_per_s == pytest.approx(4 / 0.08)
    together = replace(near, coordinated="on")
    assert predict(shared, together).samples_per_s == pytest.approx(4 / 0.05)
    assert predict(shared, Hardware(jobs=4)).samples_per_s == pytest.approx(4 / 0.16)
    unshared = replace(shared, processor_s={})
    assert predict(unshared, Hardware(jobs=4)).samples_per_s == pytest.approx(200 / 4)


def test_nodes_share_storage_and_add_their_caches(report: Path) -> None:
    one, four = (predict(read(report), Hardware(0, 25_000_000, nodes=n)) for n in (1, 4))
    assert (one.kept, four.kept) == (0.25, 1)
    assert one.limits == ("fetch",)
    assert four.samples_per_s == 4 * 300


def test_a_sweep_has_all_combinations(report: Path) -> None:
    asked_for = ("--cache", "0%,50MB", "--cores", "2,8", "--json")
    told = json.loads(call("study", "whatif", report, *asked_for).stdout)
    asked = [(each["asked"]["cache"], each["asked"]["cores"]) for each in told]
    assert asked == [("0%", "2"), ("0%", "8"), ("50MB", "2"), ("50MB", "8")]
    assert [each["kept"] for each in told] == pytest.approx([0, 0, 0.521, 0.521], abs=1e-4)
    lines = call("study", "whatif", report, "--cache", "0%,50MB").stdout.decode().splitlines()
    assert lines[0].startswith("The first of these that is enough: cache 50MB. The job reaches ")
    assert lines[2].endswith("reading")
    assert len(lines) == 4


@pytest.mark.parametrize(
    ("option", "value", "allowed"),
    [
        ("--cache", "12", "with a unit"),
        ("--cache", "101%", "0% to 100%"),
        ("--cache", "nan%", "0% to 100%"),
        ("--cores", "0", "1 or more"),
        ("--storage", "2GB", "a unit a second"),
        ("--gpu", "0", "above 0"),
        ("--codec", "lz4", "none or zstd"),
        ("--nodes", "1,,2", "1 or more"),
    ],
)
def test_wrong_values_are_told_with_what_is_allowed(
    report: Path, option: str, value: str, allowed: str
) -> None:
    said = call("study", "whatif", report, option, value, code=2).stderr
    assert option in said
    assert allowed in said


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("{}", "no 'format'"),
        ("[]", "is no analysis"),
        ('{"format": "other"}', "its format is 'other'"),
        ("not JSON", "is no analysis"),
    ],
)
def test_what_is_no_analysis_is_refused(tmp_path: Path, content: str, reason: str) -> None:
    path = tmp_path / "other.json"
    path.write_text(content)
    assert reason in call("study", "whatif", path, code=2).stderr


def test_rates_that_cannot_be_are_refused(report: Path) -> None:
    told = json.loads(report.read_text())
    told["rates"]["storage"]["samples_per_s"] = 0
    report.write_text(json.dumps(told))
    assert "rates.storage is 0" in call("study", "whatif", report, code=2).stderr


@pytest.mark.parametrize(
    ("took_s", "reason"),
    [({"ingest": -1}, "processor_s.ingest is -1"), ({"gpu": 1}, "processor_s.gpu is unknown")],
)
def test_times_of_processors_that_cannot_be_are_refused(
    report: Path, took_s: dict[str, float], reason: str
) -> None:
    told = {**json.loads(report.read_text()), "processor_s": took_s}
    report.write_text(json.dumps(told))
    assert reason in call("study", "whatif", report, code=2).stderr


def test_an_analysis_that_was_broken_off_says_what_it_lacks(report: Path) -> None:
    told = json.loads(report.read_text())
    del told["rates"]["storage"]
    report.write_text(json.dumps(told))
    assert "has no rate of storage" in call("study", "whatif", report, code=2).stderr


@pytest.mark.parametrize(
    ("rates", "near", "said"),
    [
        ((100, 300, 300, 9000), True, "As it ran, with all files on the nodes: 100.0 samples/s. "
         "Training is the limit: only a faster GPU or more nodes make the job faster. Faster "
         "storage, more cores or more loader workers would gain nothing."),
        ((500, 300, 100, 9000), True, "As it ran, with all files on the nodes: 300.0 samples/s. "
         "Training waits for preparation (decoding and the like): use 7 loader workers on each "
         "node instead of 4, for 500.0 samples/s. Before that, faster storage, more cores or a "
         "faster GPU would gain nothing."),
        ((500, 300, 100, 9000), False, "As it ran, with no files on the nodes: 100.0 samples/s. "
         "Training waits for reading: keep 67 % of the dataset (64.3 MiB) on the nodes' disks, for "
         "300.0 samples/s. Before that, more cores, more loader workers or a faster GPU would gain "
         "nothing."),
        ((None, 300, 300, 9000), True, "As it ran, with all files on the nodes: 300.0 samples/s. "
         "How fast the job trains was not seen; no speed is above preparation's. Training waits "
         "for preparation on 4 cores of each node. Before that, faster storage would gain "
         "nothing."),
    ],
)  # fmt: skip
def test_the_first_line_says_what_to_do(rates: tuple[float, ...], near: bool, said: str) -> None:
    told = analysis(*rates)
    told = replace(told, near=near, workers=told.workers if rates[0] else None)
    assert next(lines(told)) == said


def test_there_is_no_verdict_about_what_was_not_seen() -> None:
    unsure = replace(analysis(400, 300, 100, 9000), near=True)
    unsure = replace(unsure, rates={**unsure.rates, "prepare": Rate(300, 180, 420)})
    first, second, *_ = lines(unsure)
    assert first == (
        "As it ran, with all files on the nodes: no verdict, because preparation (P) is known to "
        "+-40 % only."
    )
    assert second.startswith(
        "With no files on the nodes: 100.0 samples/s. Training waits for reading: keep 67 %"
    )
    missing = replace(unsure, rates={"prepare": Rate(300, 300, 300)}, whole=False)
    assert list(lines(missing)) == [
        "PARTIAL: the analysis was broken off; what follows was measured before that.",
        "No verdict: fetches from storage (S) was not measured and fetches from memory (C) was not "
        "measured and training (G) was not measured.",
    ]


def test_a_report_is_read_as_it_was_written(tmp_path: Path) -> None:
    told = analysis(1000, 600, 200, 50_000)
    assert read(write_report(told, tmp_path)) == told
    found = json.loads((tmp_path / "analysis.json").read_text())
    assert found["verdict"] == list(lines(told))


def test_stages_that_are_equally_slow_are_named_together() -> None:
    both = replace(analysis(100, 101, 300, 9000), near=True)
    assert next(lines(both)).endswith(
        "/s. Training and preparation are equally slow: only more of each makes the job faster."
    )


def test_workers_help_until_all_cores_are_busy() -> None:
    few = replace(analysis(1000, 100, 300, 9000), near=True, workers=2)
    few = replace(few, processor_s={"ingest": 1e-6, "prepare": 0.01})
    assert next(lines(few)).endswith(
        "/s. Training waits for preparation (decoding and the like): add loader workers until the "
        "4 cores of each node are busy. Before that, faster storage, more cores or a faster GPU "
        "would gain nothing."
    )
