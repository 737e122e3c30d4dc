"""Plans: equal ones for equal jobs, what they hold, and what is said of bad input."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from inprocess import call
from plans import JOB, machine, make_dataset, plan
from serving import LIMIT_S, wait_for
from small_disk import small_disk

from fanstore.config import load_toml
from fanstore.dataset import open_dataset
from fanstore.plan.planfile import PlanFile, fetches, filling
from fanstore.plan.samples import samples_below
from fanstore.policy.next_use import frequencies
from fanstore.policy.orders.registry import reads_of_ranks
from fanstore.policy.placement.by_frequency import by_frequency_partitioned
from fanstore.policy.placement.rules import NOWHERE
from fanstore.study.simulate.engine import simulate
from fanstore.study.simulate.scenario import scenario_from


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_dataset(tmp_path_factory.mktemp("planned"))


def test_equal_arguments_give_equal_bytes_and_another_seed_others(
    dataset: Path, tmp_path: Path
) -> None:
    found = []
    for seed in ("7", "7", "8"):
        plan(tmp_path, dataset, *JOB[:-1], seed, "--force")
        found.append((tmp_path / "p.plan").read_bytes())
    assert found[0] == found[1] != found[2]


def test_a_plan_holds_the_placement_by_frequency(dataset: Path, tmp_path: Path) -> None:
    plan(tmp_path, dataset, *JOB)
    with PlanFile(tmp_path / "p.plan") as made, open_dataset(dataset) as opened:
        samples = made.check_dataset(opened)
        names = [opened.relpath(int(record)) for record in samples.records]
        assert names == sorted(names)
        assert {name.split(b"/")[0] for name in names} == {b"train"}
        reads = reads_of_ranks("torch-distributed", 60, 8, seed=7)
        epochs = [
            [np.concatenate(ranks[node * 2 : node * 2 + 2]) for node in range(4)]
            for ranks, _ in zip(reads, range(3), strict=False)
        ]
        expected = by_frequency_partitioned(
            samples.sizes_bytes + 4096, frequencies(60, epochs), [[100_000, 200_000]] * 4
        )
        found = np.stack([made.kept(node) for node in range(4)])
        assert (found == expected).all()
        assert 0 < (found == 0).sum() < (found != NOWHERE).sum() < found.size
        for node, row in enumerate(found):
            for number, room in enumerate((100_000, 200_000)):
                taken = int(samples.room_bytes[row == number].sum())
                assert taken == made.description.kept_bytes[node][number] <= room


def test_the_schedule_of_a_node_follows_from_order_and_placement(
    dataset: Path, tmp_path: Path
) -> None:
    plan(tmp_path, dataset, *JOB)
    with PlanFile(tmp_path / "p.plan") as made:
        kept = made.kept(1) != NOWHERE
        ranks = list(zip(*made.reads(2)[2:4], strict=True))
        assert made.node_reads(1, 2).tolist() == [int(each) for turn in ranks for each in turn]
        ahead = fetches(kept, made.node_reads(1, 2)).tolist()
        assert ahead == [read for read in made.node_reads(1, 2).tolist() if not kept[read]]
        first = made.node_reads(1, 0).tolist()
        order = filling(kept, np.array(first)).tolist()
        assert sorted(order) == np.flatnonzero(kept).tolist()
        used = [sample for sample in first if kept[sample]]
        assert order[: len(used)] == used
        assert order[len(used) :] == sorted(order[len(used) :])
    listed = call(
        "study", "plan", "--show", tmp_path / "p.plan", dataset, "--node", "1", "--epoch", "2"
    )
    with open_dataset(dataset) as opened:
        records = samples_below(opened, "train").records
        assert listed.stdout.split() == [opened.relpath(int(records[each])) for each in ahead]


def test_expectations_are_those_of_the_simulator(dataset: Path, tmp_path: Path) -> None:
    # So much room that the page that a plan leaves for each file makes no difference.
    path = machine(tmp_path, ('"100 kB"', '"900 kB"'), ('"200 kB"', '"0 B"'))
    told = json.loads(plan(tmp_path, dataset, *JOB, "--under", ".", "--json").stdout)
    job = {"epochs": 3, "batch": 4, "order": {"name": "torch-distributed", "seed": 7}}
    table = {
        "about": "the same",
        "system": load_toml(path)["system"],
        "dataset": {"sizes": "dataset", "path": str(dataset)},
        "job": job,
    }
    outcome = simulate(scenario_from(str(path), table), ["nopfs"]).policies["nopfs"]
    assert not isinstance(outcome, str)
    assert told["epochs_s"] == pytest.approx(outcome.epochs_s, abs=0.001)
    assert told["stall_s"] > 0
    assert told["source_bytes"] == outcome.source_bytes
    assert sum(told["source_bytes"].values()) >= 3 * told["bytes"]


def test_show_says_what_making_said(dataset: Path, tmp_path: Path) -> None:
    made = plan(tmp_path, dataset, *JOB)
    shown = call("study", "plan", "--show", tmp_path / "p.plan", dataset)
    assert made.stdout == shown.stdout
    assert b"60 files below train" in shown.stdout
    assert b"expected: first epoch " in shown.stdout
    as_json = [plan(tmp_path, dataset, *JOB, "--force", "--json").stdout]
    as_json.append(call("study", "plan", "--show", tmp_path / "p.plan", "--json").stdout)
    assert json.loads(as_json[0]) == json.loads(as_json[1])


def test_a_scenario_and_options_give_the_same_plan(dataset: Path, tmp_path: Path) -> None:
    plan(tmp_path, dataset, *JOB)
    first = (tmp_path / "p.plan").read_bytes()
    job = '[job]\nepochs = 3\nbatch = 4\norder = { name = "torch-distributed", seed = 7 }\n'
    here = f'[dataset]\nsizes = "dataset"\npath = "{dataset}"\n'
    scenario = tmp_path / "s.toml"
    scenario.write_text(job + here + (tmp_path / "machine.toml").read_text())
    where = ("--scenario", scenario, "--out", tmp_path / "q.plan", "--under", "train", "--quiet")
    call("study", "plan", dataset, *where)
    assert (tmp_path / "q.plan").read_bytes() == first
    other = make_dataset(tmp_path, "other", salt=1)
    refused = call("study", "plan", other, *where, "--force", code=2)
    assert f"{scenario}: dataset.path is another dataset" in refused.stderr
    assert (tmp_path / "q.plan").read_bytes() == first


def test_a_scenario_of_drawn_files_is_refused(dataset: Path, tmp_path: Path) -> None:
    out = ("--out", tmp_path / "p.plan", "--quiet")
    refused = call("study", "plan", dataset, "--scenario", "nopfs-1", *out, code=2)
    assert "nopfs-1.toml: dataset.sizes is 'fixed'; allowed: dataset" in refused.stderr


def test_samples_are_the_files_below_a_directory_in_the_order_of_the_index(tmp_path: Path) -> None:
    for path in ("b/x/1", "b/x/y/z/2", "b/3", "a/4", "b/x/y/5", "c/x/6", "bb/7", "8", "b/w/9"):
        (tmp_path / "source" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "source" / path).write_text(path)
    (tmp_path / "source" / "b" / "link").symlink_to("3")
    call("prepare", tmp_path / "source", tmp_path / "data", "--quiet")
    with open_dataset(tmp_path / "data") as opened:
        files = [
            (record, opened.relpath(record).decode())
            for record, mode in enumerate(opened.records["mode"].tolist())
            if mode & 0o170000 == 0o100000
        ]
        assert len(files) == 9
        for under in (".", "b", "b/x", "b/x/y/z", "bb", "./b//x/"):
            top = "" if under == "." else "b/x/" if under.startswith("./") else under + "/"
            expected = [record for record, path in files if path.startswith(top)]
            assert samples_below(opened, under).records.tolist() == expected


def test_want_of_memory_counts_the_batches(
    dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_memory(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr("fanstore.study.planning.making.outcome_of", no_memory)
    machine(tmp_path, ("nodes = 4", "nodes = 1"))
    said = "a plan of 60 files on 1 node, in batches of 1,000,000, needs about 106.8 MiB of memory"
    refused = plan(tmp_path, dataset, *JOB, "--batch", "1000000", code=125)
    assert said in refused.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_nothing_of_a_plan(dataset: Path, tmp_path: Path, number: int) -> None:
    where = ["--machine", str(machine(tmp_path)), "--out", str(tmp_path / "p.plan"), "--quiet"]
    job = ["--epochs", "60000", "--batch", "4", "--order", "torch-distributed", "--seed", "0"]
    command = [sys.executable, "-m", "fanstore", "study", "plan", str(dataset), *where, *job]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        wait_for(lambda: list(tmp_path.glob(".p.plan.*")), "the plan to be begun")
        process.send_signal(number)
        stderr = process.communicate(timeout=LIMIT_S)[1]
    assert process.returncode == 128 + number
    assert "p.plan was not made, and nothing is left behind" in stderr
    assert [path.name for path in tmp_path.iterdir()] == ["machine.toml"]


def test_one_node_needs_no_network(dataset: Path, tmp_path: Path) -> None:
    machine(tmp_path, ("nodes = 4", "nodes = 1"), ('network = "1 GB/s"\n', ""))
    plan(tmp_path, dataset, *JOB)
    refused = plan(tmp_path, dataset, *JOB, "--nodes", "2", "--force", code=2)
    assert (
        "machine.toml does not say all that a plan needs; add --set network=RATE\n"
        in refused.stderr
    )


def test_all_that_a_measured_machine_leaves_open_is_named_at_once(
    dataset: Path, tmp_path: Path
) -> None:
    text = machine(tmp_path).read_text()
    keys = ("nodes", "ranks_per_node", "compute", "preprocess", "network")
    kept = [line for line in text.splitlines() if line.partition(" = ")[0] not in keys]
    (tmp_path / "machine.toml").write_text("\n".join(kept))
    refused = plan(tmp_path, dataset, code=2).stderr
    assert refused.endswith(
        "machine.toml does not say all that a plan needs; add --nodes N --ranks-per-node N "
        "--compute RATE --preprocess RATE --set network=RATE --epochs N --batch N --order NAME\n"
    )
    refused = plan(tmp_path, dataset, "--nodes", "1", "--recorded", "r", code=2).stderr
    assert refused.endswith(
        "add --ranks-per-node N --compute RATE --preprocess RATE --epochs N --batch N\n"
    )


def test_nothing_is_kept_where_there_are_no_storage_classes(dataset: Path, tmp_path: Path) -> None:
    text = machine(tmp_path).read_text().split("[[system.classes]]")[0]
    (tmp_path / "machine.toml").write_text(text)
    told = json.loads(plan(tmp_path, dataset, *JOB, "--json").stdout)
    assert told["kept_files"] == [[]] * 4
    assert list(told["source_bytes"]) == ["shared"]
    with PlanFile(tmp_path / "p.plan") as made:
        assert (made.kept(3) == NOWHERE).all()
    (tmp_path / "machine.toml").write_text(text.replace("[system]", "[system]\nclasses = 5"))
    refused = plan(tmp_path, dataset, *JOB, "--set", "nodes=2", "--force", code=2)
    assert "system.classes is 5; allowed: tables [[system.classes]]" in refused.stderr


BAD_MACHINES = {
    "unknown": (('compute = "', 'computer = "'), "system.computer is unknown (is compute meant?)"),
    "misspelt": (("threads = 2\nwrite", "thread = 2\nwrite"), "staging_buffer.thread is unknown"),
    "no unit": (('"2 MB/s"', "2"), "system.compute is 2; allowed: a number above 0 with a unit"),
    "negative": (('"1 GB/s"', '"-1 GB/s"'), "system.network is '-1 GB/s'; allowed"),
    "zero": (('"200 MB/s"', '"0 MB/s"'), "system.preprocess is '0 MB/s'; allowed"),
    "unsorted": (("[1, 2, 4, 8]", "[1, 4, 2, 8]"), "readers is [1, 4, 2, 8]; allowed: integers"),
    "endless": (('"9 MB/s"', f'"{"9" * 400} MB/s"'), "allowed: for each of readers a number"),
    "many readers": (("[1, 2, 4, 8]", "[1, 2, 4, 9999999999]"), "allowed: integers from 1 on"),
    "largest": (('"100 kB"', '"99999999999 TB"'), "classes[0].capacity is '99999999999 TB'"),
    "too much together": (('"100 kB"', '"9000000 TB"'), "capacities_bytes are "),
    "small buffer": (('"1 MB"', '"20 kB"'), "allowed: at least as much as a batch"),
    "a job": (("[system]", "[job]\nepochs = 1\n[system]"), "has a job or a dataset; allowed"),
    "syntax": (("[system]", "[system"), "machine.toml: "),
}


@pytest.mark.parametrize("case", BAD_MACHINES)
def test_a_bad_machine_is_named_with_key_and_what_is_allowed(
    case: str, dataset: Path, tmp_path: Path
) -> None:
    change, message = BAD_MACHINES[case]
    path = machine(tmp_path, change)
    refused = plan(tmp_path, dataset, *JOB, code=2)
    assert refused.stderr.startswith(f"fanstore: error: {path}: ")
    assert message in refused.stderr
    assert not list(tmp_path.glob("*p.plan*"))


BAD_JOBS = {
    "order": (["--order", "torch"], "error: --order is 'torch'; allowed: accelerate"),
    "parameter": (
        ["--parameter", "sede=1"],
        "error: --order: order torch-distributed has no parameter 'sede'; allowed are seed",
    ),
    "one rank": (["--order", "torch-random"], "error: --order: order torch-random"),
    "batch": (["--batch", "0"], "error: --batch is 0; allowed: an integer, 1 or more"),
    "epochs": (["--epochs", "many"], "error: --epochs is 'many'; allowed: an integer"),
    "rate": (["--compute", "64"], "error: --compute is 64; allowed: a number above 0 with a unit"),
    "ranks": (["--ranks-per-node", "x"], "error: --ranks-per-node is 'x'; allowed: an integer"),
    "network": (["--set", "network=64"], "error: --set: network is 64; allowed: a number above 0"),
    "buffer": (["--set", "staging_buffer=x"], "error: --set: staging_buffer is 'x'; allowed"),
    "class": (["--set", "disk=x"], "error: --set: disk is 'x'; allowed: a number from 0 on"),
    "name": (["--set", "rma=1GB"], "nothing is named 'rma' to be changed; allowed: batch"),
    "ranks for files": (
        ["--nodes", "31"],
        "error: --nodes makes 62 ranks, which is more than 60 files; allowed: as many ranks as",
    ),
    "under": (["--under", "test"], "there is no directory 'test' in it"),
}


@pytest.mark.parametrize("case", BAD_JOBS)
def test_a_bad_job_is_named(case: str, dataset: Path, tmp_path: Path) -> None:
    arguments, message = BAD_JOBS[case]
    assert message in plan(tmp_path, dataset, *JOB, *arguments, code=2).stderr
    assert not list(tmp_path.glob("*p.plan*"))


def test_options_that_do_not_go_together_are_refused(dataset: Path, tmp_path: Path) -> None:
    plan(tmp_path, dataset, *JOB)
    show = ("--show", tmp_path / "p.plan")
    for arguments, message in (
        ((dataset, "--out", "x", "--node", "1"), "--node goes with --show"),
        (("--out", "x"), "Missing argument 'DATASET'"),
        ((dataset,), "Missing option '--out'"),
        ((dataset, "--out", "x", "--seed", "1"), "--seed goes with --order"),
        ((dataset, "--out", "x", "--machine", "m", "--scenario", "s"), "exclude each other"),
        ((dataset, "--out", "x", *JOB, "--set", "epochs=4"), "--set: epochs is given twice"),
        ((*show, "--force"), "--show does not go with --force"),
        ((*show, "--node", "1"), "--node goes with DATASET"),
        ((*show, dataset, "--node", "4"), "--node: 4 is not one of the nodes 0 to 3"),
        ((*show, dataset, "--node", "3", "--epoch", "3"), "no epoch 3; allowed: 0 to 2"),
    ):
        assert message in call("study", "plan", *arguments, code=2).stderr
    assert "exists already (--force" in plan(tmp_path, dataset, *JOB, code=2).stderr


def test_without_a_machine_it_is_said_how_to_measure_one(
    dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    refused = call("study", "plan", dataset, "--out", tmp_path / "p", *JOB, code=2)
    assert "was not measured; `fanstore study calibrate` does" in refused.stderr


def record(tmp_path: Path, ranks: int = 8, epochs: int = 3, most: int = 60) -> list[Path]:
    """What the ranks have read, as files of numbers."""
    paths = []
    for rank in range(ranks):
        rng = np.random.default_rng(rank)
        paths.append(tmp_path / f"r{rank}.npy")
        np.save(paths[-1], rng.integers(0, most, (epochs, 8)))
    return paths


def recorded(paths: list[Path]) -> list[str]:
    return [word for path in paths for word in ("--recorded", str(path))]


def test_recorded_orders_as_numbers_and_as_names(dataset: Path, tmp_path: Path) -> None:
    paths = record(tmp_path)
    plan(tmp_path, dataset, *JOB[:4], *recorded(paths))
    first = (tmp_path / "p.plan").read_bytes()
    with PlanFile(tmp_path / "p.plan") as made, open_dataset(dataset) as opened:
        made.check()
        records = samples_below(opened, "train").records
        for epoch in range(3):
            found = made.reads(epoch)
            for rank, path in enumerate(paths):
                assert found[rank].tolist() == np.load(path)[epoch].tolist()
        for number, path in enumerate(paths):
            names = [
                [opened.relpath(int(records[each])).decode() for each in epoch]
                for epoch in np.load(path)
            ]
            if number == 0:
                names = [[str(each) for each in epoch] for epoch in np.load(path).tolist()]
            path.with_suffix(".txt").write_text("\n\n".join(map("\n".join, names)) + "\n")
    texts = [path.with_suffix(".txt") for path in paths]
    plan(tmp_path, dataset, *JOB[:4], *recorded(texts), "--force")
    assert (tmp_path / "p.plan").read_bytes() == first


def test_a_recorded_order_of_one_epoch_is_repeated(dataset: Path, tmp_path: Path) -> None:
    paths = record(tmp_path, epochs=1)
    plan(tmp_path, dataset, *JOB[:4], *recorded(paths))
    with PlanFile(tmp_path / "p.plan") as made:
        assert (
            made.reads(0)[5].tolist() == made.reads(2)[5].tolist() == np.load(paths[5])[0].tolist()
        )


def test_bad_recorded_orders_are_named(dataset: Path, tmp_path: Path) -> None:
    def refused(paths: list[Path]) -> str:
        return plan(tmp_path, dataset, *JOB[:4], *recorded(paths), code=2).stderr

    assert "--recorded: 7 files for 8 ranks; allowed: one for each" in refused(record(tmp_path, 7))
    assert "2 epochs are recorded; allowed: 3, or 1" in refused(record(tmp_path, epochs=2))
    paths = record(tmp_path)
    np.save(paths[3], np.array([[60]] * 3))
    assert f"{paths[3]}: epoch 0 reads sample 60, and the dataset has 60;" in refused(paths)
    np.save(paths[3], np.array([[1], [-1], [0]]))
    assert f"{paths[3]}: epoch 1 reads sample -1" in refused(paths)
    np.save(paths[3], np.array([[0.5]] * 3))
    assert f"{paths[3]}: no one or two dimensions of integers" in refused(paths)
    np.save(paths[3], np.array([["train/a/00", None]], dtype=object), allow_pickle=True)
    assert f"{paths[3]}: " in refused(paths)
    paths = record(tmp_path)
    paths[0].write_bytes(b"")
    assert f"{paths[0]}: " in refused(paths)
    text = tmp_path / "names"
    text.write_text("train/a/00\nval/0\n")
    assert f"{text}:2: 'val/0' is no file of the samples" in refused([text, *paths[1:]])


def test_a_full_disk_leaves_nothing(dataset: Path, tmp_path: Path) -> None:
    plan(tmp_path, dataset, *JOB)
    small = tmp_path / "small"
    small.mkdir()
    with small_disk(small, "4k"):
        (small / "filler").write_bytes(b"x")
        done = call(
            "study", "plan", dataset, "--machine", tmp_path / "machine.toml",
            "--out", small / "p.plan", *JOB, "--quiet", code=None,
        )  # fmt: skip
        assert done.code == 125
        assert f"{small / 'p.plan'}: No space left on device" in done.stderr
        assert [each.name for each in small.iterdir()] == ["filler"]


def test_a_dataset_packed_again_from_other_files_is_another(dataset: Path, tmp_path: Path) -> None:
    plan(tmp_path, dataset, *JOB)
    other = make_dataset(tmp_path, "other", salt=1)
    refused = call("study", "plan", "--show", tmp_path / "p.plan", other, code=2)
    assert "p.plan: dataset.id is " in refused.stderr
    assert "allowed: the dataset that the plan was made for" in refused.stderr
    shutil.copytree(dataset, tmp_path / "moved")
    call("study", "plan", "--show", tmp_path / "p.plan", tmp_path / "moved")
