"""What settings bring, and the report that says so."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from papers import lru_misses, random_misses

from fanstore.study.analyze.analysis import Analysis, Rate, read
from fanstore.study.analyze.gains import best, cached_shares, gains_of
from fanstore.study.analyze.session import write_report


def analysis(**rates: float) -> Analysis:
    given = {name: Rate(rate, 0.9 * rate, 1.1 * rate) for name, rate in rates.items()}
    return Analysis(5000, 100_000, 4, given)


SLOW_STORAGE = analysis(ingest=1000, prepare=600, storage=200, cache=50_000)


@pytest.mark.parametrize("part", [0.25, 0.5])
def test_the_simulated_caches_do_what_the_closed_forms_say(part: float) -> None:
    shares = cached_shares(part)
    assert shares["minio"] == pytest.approx(part, abs=0.01)
    assert shares["lru"] == pytest.approx(1 - lru_misses(part), abs=0.02)
    assert shares["random"] == pytest.approx(1 - random_misses(part), abs=0.02)
    assert shares["belady"] >= shares["minio"]


def test_prefetching_and_caches_bring_what_storage_costs() -> None:
    gains = {each.setting: each for each in gains_of(SLOW_STORAGE)}
    plain = gains["--order off, no cache"]
    assert plain.times == 1
    assert gains["prefetch (--order auto), no cache"].samples_per_s == pytest.approx(200)
    half = [each.samples_per_s for name, each in gains.items() if name.startswith("cache of 50%")]
    assert half == sorted(half)  # lru, random, minio, belady
    assert gains["cache of 100%, --cache-policy belady, prefetch"].samples_per_s == 600
    alone = gains["4 such jobs on the node, each"].samples_per_s
    assert (
        gains["4 such jobs on the node with coordinated preparation, each"].samples_per_s
        == 4 * alone
    )
    times = [each.times for each in best(list(gains.values()))]
    assert times == sorted(times)


def test_stages_that_take_turns_are_no_faster_than_fetches_beside_them() -> None:
    gains = {each.setting: each for each in gains_of(replace(SLOW_STORAGE, overlap=False))}
    assert gains["prefetch (--order auto), no cache"].samples_per_s == 200
    alone = 1 / (1 / 1000 + 1 / 600)
    assert gains["cache of 100%, --cache-policy belady, prefetch"].samples_per_s == alone


def test_jobs_that_share_cores_gain_what_their_training_leaves() -> None:
    shared = replace(SLOW_STORAGE, processor_s={"ingest": 0.01, "prepare": 0.03})
    gains = {each.setting: each.samples_per_s for each in gains_of(shared)}
    assert gains["cache of 100%, --cache-policy belady, prefetch"] == pytest.approx(4 / 0.04)
    assert gains["2 such jobs on the node, each"] == pytest.approx(4 / 0.08)
    coordinated = gains["2 such jobs on the node with coordinated preparation, each"]
    assert coordinated == pytest.approx(4 / 0.05)


def test_what_trains_slowly_gains_nothing() -> None:
    gains = gains_of(analysis(ingest=10, prepare=600, storage=200, cache=50_000))
    assert {each.times for each in gains if "such jobs" not in each.setting} == {1}
    assert best(gains) == []


def test_the_report_is_one_page_that_fetches_nothing(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    written = write_report(SLOW_STORAGE, gains_of(SLOW_STORAGE), tmp_path)
    assert [path.name for path in written] == ["analysis.json", "analysis.html"]
    page = written[1].read_text()
    assert page.count("<svg") == 2
    assert "fetch-bound" in page
    assert "src=" not in page
    assert "@import" not in page
    told = json.loads(written[0].read_text())
    assert len(told["gains"]) == len(gains_of(SLOW_STORAGE))
    assert read(written[0]).rates == SLOW_STORAGE.rates


def test_a_partial_report_says_so(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    partial = Analysis(5000, 100_000, 4, {"job": Rate(50, 49, 51)}, ("broken off: by hand",), False)
    page = write_report(partial, [], tmp_path)[1].read_text()
    assert "PARTIAL" in page
    assert "broken off: by hand" in page
    assert "<svg" not in page
