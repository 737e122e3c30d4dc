"""What an analysis foretells, from made-up rates."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from inprocess import call

from fanstore.study.analyze.analysis import Analysis, Rate, read
from fanstore.study.analyze.prediction import Hardware, predict

SAMPLES, SAMPLE_BYTES = 1000, 100_000.0


def analysis(ingest: float | None, prepare: float, storage: float, cache: float) -> Analysis:
    rates = {"ingest": ingest, "prepare": prepare, "storage": storage, "cache": cache}
    given = {name: Rate(rate, rate, rate) for name, rate in rates.items() if rate is not None}
    return Analysis(SAMPLES, SAMPLE_BYTES, 4, given)


def cached(part: float) -> Hardware:
    return Hardware(round(part * SAMPLES * SAMPLE_BYTES))


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


def test_stalls_are_parts_of_what_would_be_without_them() -> None:
    found = predict(analysis(400, 300, 100, 1e6), cached(0))
    assert found.samples_per_s == 100
    assert found.prepare_stall == pytest.approx(1 - 300 / 400)
    assert found.fetch_stall == pytest.approx(1 - 100 / 300)


@pytest.mark.parametrize("storage", [20, 100, 250])
def test_the_smallest_cache_is_where_the_fetch_stall_ends(storage: float) -> None:
    rates = analysis(400, 300, storage, 10_000)
    least = predict(rates, cached(0)).min_cache
    assert predict(rates, cached(least)).fetch_stall < 0.001
    assert predict(rates, cached(least - 0.05)).fetch_stall > 0.01


def test_the_disk_and_cores_that_are_said_to_do_end_the_stall() -> None:
    slow_disk = analysis(400, 300, 50, 10_000)
    needed = predict(slow_disk, cached(0.35)).min_disk_bytes_per_s
    with_it = Hardware(cached(0.35).cache_bytes, None, needed)
    assert predict(slow_disk, with_it).fetch_stall == pytest.approx(0, abs=1e-9)
    few_cores = analysis(400, 100, 1000, 10_000)
    cores = predict(few_cores, cached(0)).min_cores
    assert cores == 16
    assert predict(few_cores, Hardware(cores=cores)).limits == ("ingest", "prepare")
    assert predict(few_cores, Hardware(cores=cores - 1)).prepare_stall > 0


def test_training_and_preparation_share_their_cores() -> None:
    shared = replace(
        analysis(400, 300, 1000, 10_000), processor_s={"ingest": 0.012, "prepare": 0.008}
    )
    found = predict(shared, cached(0))
    assert (found.limits, found.samples_per_s) == (("cores",), pytest.approx(4 / 0.02))
    assert found.prepare_stall == pytest.approx(1 - 200 / 400)
    assert predict(shared, Hardware(nodes=2)).samples_per_s == pytest.approx(2 * 4 / 0.02)
    assert found.min_cores == 8
    assert "cores" in predict(shared, Hardware(cores=8)).limits
    assert predict(shared, Hardware(cores=9)).limits == ("ingest",)
    assert predict(replace(shared, overlap=False), cached(0)).limits != ("cores",)


def test_nodes_share_storage_and_add_their_caches(report: Path) -> None:
    one, four = (predict(read(report), Hardware(25_000_000, None, None, n)) for n in (1, 4))
    assert (one.cached, four.cached) == (0.25, 1)
    assert one.limits == ("fetch",)
    assert four.samples_per_s == 4 * 300


def test_a_sweep_has_all_combinations(report: Path) -> None:
    asked_for = ("--cache", "0%,50MB", "--cores", "2,8", "--json")
    told = json.loads(call("study", "whatif", report, *asked_for).stdout)
    asked = [(each["asked"]["cache"], each["asked"]["cores"]) for each in told]
    assert asked == [("0%", "2"), ("0%", "8"), ("50MB", "2"), ("50MB", "8")]
    assert [each["cached"] for each in told] == [0, 0, 0.5, 0.5]
    lines = call("study", "whatif", report, "--cache", "0%,50MB").stdout.decode().splitlines()
    assert lines[1].endswith("fetch-bound")
    assert len(lines) == 4


@pytest.mark.parametrize(
    ("option", "value", "allowed"),
    [
        ("--cache", "12", "with a unit"),
        ("--cache", "101%", "0% to 100%"),
        ("--cache", "nan%", "0% to 100%"),
        ("--cores", "0", "1 or more"),
        ("--disk", "2GB", "a unit a second"),
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
