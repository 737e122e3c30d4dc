"""fanstore study simulate, from the command line."""

from __future__ import annotations

import json
from pathlib import Path

from inprocess import call

from fanstore.study.simulate.policies import POLICIES


def test_each_table_has_a_row_for_each_policy() -> None:
    lines = call("study", "simulate", "nopfs-1", "--epochs", "2").stdout.decode().splitlines()
    assert lines[0] == "50,000 files, 36.2 MiB; 4 ranks, 2 epochs; an epoch takes 0.15 s or more"
    names = [line.split()[0] for line in lines[2:] if line]
    assert names == 3 * ["policy", *POLICIES]
    sources = next(number for number, line in enumerate(lines) if line.endswith("loaded from"))
    assert max(map(len, lines[:sources])) <= 80


def test_less_than_ten_samples_a_second_have_digits() -> None:
    lines = call("study", "simulate", "nopfs-4-512", "--epochs=1", "--policy=naive").stdout.decode()
    row = next(line for line in lines.splitlines()[4:] if line.startswith("naive"))
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
    (head,) = [line for line in lines if "warm-up" in line]
    assert head.endswith("warm-up  min. cache")
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
