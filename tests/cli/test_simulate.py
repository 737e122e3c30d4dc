"""fanstore study simulate, from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from inprocess import call

from fanstore.study.simulate.advice import CHOICES
from fanstore.study.simulate.policies import POLICIES


def rows(lines: list[str]) -> list[str]:
    """The first words of the lines of tables."""
    return [line.split()[0] for line in lines if line]


def test_the_first_screen_says_what_to_do() -> None:
    lines = call("study", "simulate", "thesis-1").stdout.decode().splitlines()
    text = " ".join(lines[: lines.index("")])
    assert text.startswith(
        "Run the job with FanStore: 7.58 s instead of 10.26 s with reading ahead alone, "
    )
    assert max(map(len, lines)) <= 80
    assert rows(lines[lines.index("", lines.index("") + 1) :]) == ["policy", *CHOICES]


# What was changed in a scenario, and what the first screen says of it.
ADVICE = (
    ("nopfs-1", (), "The shared file system is fast enough"),
    ("coordl-ssd", ("files=1743", "ram=420MB"), "together keep 65% of the dataset, and read the"),
    (
        "coordl-ssd",
        ("files=1743", "ram=420MB"),
        "Add 214.5 MiB of memory or disk to each of the job's",
    ),
    ("coordl-ssd", ("files=1743", "ram=1GB"), "Only the first epoch"),
    ("nopfs-1", ("preprocess=5MB/s",), "Preparing samples takes longer than computing"),
    ("nopfs-1", ("preprocess=5MB/s", "ram=0B", "disk=0B"), "Add threads (loader workers)."),
)


@pytest.mark.parametrize(("name", "changes", "said"), ADVICE)
def test_advice_fits_the_job(name: str, changes: tuple[str, ...], said: str) -> None:
    sweeps = [part for change in changes for part in ("--sweep", change)]
    shown = call("study", "simulate", name, *sweeps).stdout.decode()
    assert said in " ".join(shown.split())


def test_each_table_has_a_row_for_each_policy() -> None:
    shown = call("study", "simulate", "nopfs-1", "--epochs", "2", "--all").stdout.decode()
    lines = shown.splitlines()
    head = "50,000 files, 36.2 MiB; 4 ranks, 2 epochs; an epoch takes 0.15 s or more"
    lines = lines[lines.index(head) + 2 :]
    assert rows(lines) == 3 * ["policy", *POLICIES]
    sources = next(number for number, line in enumerate(lines) if line.endswith("loaded from"))
    assert max(map(len, lines[:sources])) <= 80


def test_less_than_ten_samples_a_second_have_digits() -> None:
    small = ["--epochs=1", "--all", "--sweep", "files=100", "--sweep", "ram=1GB"]
    lines = call("study", "simulate", "nopfs-4-512", *small).stdout.decode().splitlines()
    steps = next(number for number, line in enumerate(lines) if "samples/s" in line)
    row = next(line for line in lines[steps:] if line.startswith("naive"))
    assert 0 < float(row.split()[1]) < 10


def test_json_has_the_cases_of_a_sweep() -> None:
    asked = ["--policy", "nopfs", "--policy", "lbann-dynamic", "--sweep", "ram=1MB,1GB"]
    few, many = json.loads(
        call("study", "simulate", "nopfs-1", "--epochs=2", *asked, "--json").stdout
    )
    assert (few["changed"], many["changed"]) == ({"ram": "1MB"}, {"ram": "1GB"})
    assert list(few["policies"]) == ["lbann-dynamic", "nopfs"]
    assert "exceeds the memory" in few["policies"]["lbann-dynamic"]["cannot_run"]
    found = many["policies"]["nopfs"]
    assert len(found["epochs_s"]) == 2
    assert sum(found["source_bytes"].values()) == 2 * many["dataset_bytes"] == 2 * 38_000_000
    assert sum(found["source_shares"].values()) == 1


def test_the_minimal_cache_is_a_column_and_a_key() -> None:
    asked = [
        "study",
        "simulate",
        "nopfs-1",
        "--epochs=1",
        "--policy=perfect",
        "--policy=lbann-dynamic",
    ]
    lines = call(*asked, "--min-cache").stdout.decode().splitlines()
    (head,) = [line for line in lines if "median" in line]
    assert head.endswith("stall  min. cache")
    perfect, lbann = lines[lines.index(head) + 1 :][:2]
    assert perfect.endswith(" 0 bytes") and lbann.endswith(" 9.1 MiB")
    (found,) = json.loads(call(*asked, "--min-cache", "--json").stdout)
    assert found["policies"]["perfect"]["min_cache_bytes"] == 0
    assert found["policies"]["lbann-dynamic"]["min_cache_bytes"] == 38_000_000 // 4
    (found,) = json.loads(call(*asked, "--json").stdout)
    assert "min_cache_bytes" not in found["policies"]["perfect"]
    figures = {"samples_per_s", "bytes_per_s", "steps", "slow_steps", "warm_up_steps", "warm_up_s"}
    assert figures <= set(found["policies"]["perfect"])


def test_a_wrong_value_of_a_sweep_is_told_as_one() -> None:
    wrong = call("study", "simulate", "nopfs-1", "--sweep", "nodes=2,0", code=2).stderr
    assert "error: --sweep nodes=0: " in wrong
    assert "system.nodes is 0; allowed: an integer, 1 or more" in wrong


def test_a_reason_stands_below_the_table() -> None:
    asked = ["--policy", "lbann-dynamic", "--sweep", "ram=1MB", "--epochs=2"]
    lines = call("study", "simulate", "nopfs-1", *asked).stdout.decode().splitlines()
    assert lines[-1].startswith("lbann-dynamic cannot run: the dataset (36.2 MiB) exceeds")


def test_list_names_scenarios_and_policies() -> None:
    shown = call("study", "simulate", "--list").stdout.decode()
    assert "nopfs-4-512" in shown and "frequency-partition" in shown
    assert list(json.loads(call("study", "simulate", "--list", "--json").stdout)["policies"]) == [
        *POLICIES
    ]


def test_options_that_say_two_things_are_refused() -> None:
    both = call("study", "simulate", "nopfs-1", "--epochs=2", "--sweep", "epochs=3", code=2).stderr
    assert "--epochs and --sweep epochs=... exclude each other." in both
    every = call("study", "simulate", "nopfs-1", "--all", "--policy=lru", code=2).stderr
    assert "--policy and --all exclude each other." in every
    assert (
        "--list goes with --json alone."
        in call("study", "simulate", "nopfs-1", "--list", code=2).stderr
    )


def test_wrong_names_are_answered_with_the_right_ones(tmp_path: Path) -> None:
    unknown = call("study", "simulate", "nopfs-9", code=2).stderr
    assert "built in are coordl-hdd, coordl-ssd," in unknown and "nopfs-1, nopfs-2," in unknown
    wrong = call("study", "simulate", "nopfs-1", "--policy", "fifo", code=2).stderr
    assert "there is no policy 'fifo'; allowed: perfect, naive," in wrong
    assert "Missing argument 'SCENARIO'" in call("study", "simulate", code=2).stderr
    assert "t.toml: No such file" in call("study", "simulate", tmp_path / "t.toml", code=2).stderr
    (tmp_path / "t.toml").write_text("about = 5\n")
    assert (
        "about is 5; allowed: a text"
        in call("study", "simulate", tmp_path / "t.toml", code=2).stderr
    )
