"""Settings and their sources, and what `fanstore doctor` prints of them."""

from __future__ import annotations

import json
import os
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from serving import Stage, make_stage

from fanstore import config
from fanstore.errors import UsageError
from fanstore.transport import trial


@pytest.fixture
def toml(tmp_path: Path) -> Path:
    path = tmp_path / "settings.toml"
    path.write_text('local_dir = "/from/file"\nkeep_staged = true\norphan_wait_s = 5\n')
    return path


def test_flag_over_variable_over_file_over_default(toml: Path) -> None:
    environ = {"FANSTORE_CONFIG": str(toml), "FANSTORE_STAGE_THREADS": "7"}
    environ["FANSTORE_KEEP_STAGED"] = "no"
    found = config.resolve({"local_dir": "/from/flag", "verify": None}, environ)
    assert (found.local_dir, found.sources["local_dir"]) == ("/from/flag", "flag")
    assert (found.stage_threads, found.sources["stage_threads"]) == (7, "FANSTORE_STAGE_THREADS")
    assert (found.keep_staged, found.sources["keep_staged"]) == (False, "FANSTORE_KEEP_STAGED")
    assert (found.orphan_wait_s, found.sources["orphan_wait_s"]) == (5.0, str(toml))
    assert (found.verify, found.sources["verify"]) == (False, "default")


def test_no_file_gives_the_defaults(tmp_path: Path) -> None:
    found = config.resolve({}, {"HOME": str(tmp_path), "FANSTORE_CONFIG": ""})
    assert {setting.name: getattr(found, setting.name) for setting in config.SETTINGS} == {
        setting.name: setting.default for setting in config.SETTINGS
    }


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("FANSTORE_QUIET", "perhaps"),
        ("FANSTORE_STAGE_THREADS", "many"),
        ("FANSTORE_STAGE_THREADS", "-1"),
        ("FANSTORE_STAGE_THREADS", "0"),
        ("FANSTORE_ORPHAN_WAIT_S", "nan"),
        ("FANSTORE_DEADLINE_S", "0"),
        ("FANSTORE_DEADLINE_S", "1e300"),
        ("FANSTORE_PEER_WAIT_S", "inf"),
        ("FANSTORE_PEER_WAIT_S", "0"),
        ("FANSTORE_CACHE_BYTES", "1K"),
        ("FANSTORE_CACHE_BYTES", "99999999999G"),
        ("FANSTORE_REPLICAS", "0"),
        ("FANSTORE_STAGE", "late"),
    ],
)
def test_a_variable_that_makes_no_sense_is_named(name: str, value: str) -> None:
    with pytest.raises(UsageError, match=name):
        config.resolve({}, {name: value, "FANSTORE_CONFIG": ""})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("colour = 1", "unknown setting colour"),
        ("quiet = 3", "quiet from .*settings.toml"),
        ('stage_threads = "2"\nlocal_dir = 5', "local_dir from"),
        ("quiet = ", "settings.toml"),
        ("\udcff\udcfe", "settings.toml: 'utf-8' codec can't decode"),
    ],
)
def test_a_file_that_makes_no_sense_is_named(toml: Path, text: str, expected: str) -> None:
    toml.write_bytes(os.fsencode(text))
    with pytest.raises(UsageError, match=expected):
        config.resolve({}, {"FANSTORE_CONFIG": str(toml)})


def test_a_named_file_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not a file"):
        config.resolve({}, {"FANSTORE_CONFIG": str(tmp_path / "none.toml")})


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return make_stage(tmp_path)


def test_doctor_says_every_setting_with_its_source(stage: Stage) -> None:
    found = json.loads(stage.call("doctor", "--json").stdout)
    rows = {row["name"]: row for row in found["settings"]}
    assert set(rows) == {setting.name for setting in config.SETTINGS}
    assert rows["local_dir"]["source"] == "FANSTORE_LOCAL_DIR"
    assert rows["quiet"]["source"] == "default"
    (local,) = found["local_directories"]
    assert local["path"] == str(stage.local) and local["chosen"] and local["free_bytes"] > 0
    assert set(found["codecs"]) == {"lz4", "zstd"}
    assert str(stage.local) in found["containers"]["bound at the same place"]
    text = stage.call("doctor").stdout
    assert re.search(r"an image needs: glibc 2\.\d+ or newer \(not musl\)", text)
    given = [row for row in found["settings"] if row["source"] != "default"]
    assert given and all(f"from {row['source']}" in text for row in given)
    assert f"  {len(found['settings']) - len(given)} others have their defaults" in text


def test_doctor_says_what_a_dataset_would_do(stage: Stage) -> None:
    dataset = stage.dataset(stage.source(files={f"f{n}": bytes(1_000_000) for n in range(9)}))
    said = stage.call("doctor", "--dataset", str(dataset)).stdout
    assert "data: 9 files in 2 packs" in said and "staged before the command starts" in said
    env = {"FANSTORE_LOCAL_BYTES": "4M"}
    said = stage.call("doctor", "--dataset", str(dataset), **env).stdout
    assert "judged alone" not in said
    assert "judged alone" in stage.call("doctor", *("--dataset", str(dataset)) * 2, **env).stdout
    assert "does not fit" in said and "3 nodes like this one hold it together" in said
    (found,) = json.loads(stage.call("doctor", "--json", "--dataset", str(dataset), **env).stdout)
    assert not found["fits"] and 3_900_000 < found["kept_bytes"] < 4 << 20
    for few in ("0", "500K"):  # the index has room in any case
        said = stage.call("doctor", "--dataset", str(dataset), FANSTORE_LOCAL_BYTES=few).stdout
        assert "its largest file has no room" in said and "0 bytes are kept there" in said
        stage.run(dataset, "true", options=("--local-bytes", few))
    assert "no such directory" in stage.call("doctor", "--dataset", "none", code=2).stderr


@pytest.mark.soak
def test_doctor_counts_what_earlier_jobs_kept(stage: Stage) -> None:
    dataset = stage.dataset(stage.source(files={f"f{n}": bytes(1_000_000) for n in range(9)}))
    limit = {"FANSTORE_LOCAL_BYTES": "4M"}

    def told(**env: str) -> dict[str, Any]:
        said = stage.call("doctor", "--json", "--dataset", str(dataset), **env).stdout
        (found,) = json.loads(said)
        return dict(found)

    before = told(**limit)
    assert before["there_bytes"] == 0
    read_all = ["sh", "-c", f"cat {stage.mount}/* > /dev/null"]
    stage.run(dataset, *read_all, options=("--keep-staged", "--local-bytes", "4M"))
    kept = told(**limit)
    assert kept["there_bytes"] > 900_000
    assert {**kept, "there_bytes": 0} == {**before, "memory_bytes": kept["memory_bytes"]}
    stage.run(dataset, *read_all, options=("--keep-staged",))
    whole = told()
    assert whole["fits"] and whole["there_bytes"] >= whole["pack_bytes"] > 9_000_000
    said = stage.call("doctor", "--dataset", str(dataset), FANSTORE_LOCAL_BYTES="10M").stdout
    assert ", where earlier jobs left " in said and "staged before the command starts" in said


def test_doctor_makes_nothing(stage: Stage) -> None:
    stage.call("doctor")
    assert list(stage.local.iterdir()) == []


@pytest.mark.soak
def test_doctor_goes_on_after_settings_that_make_no_sense(stage: Stage, tmp_path: Path) -> None:
    file = tmp_path / "broken.toml"
    file.write_text('deadline_s = "soon"\nkeep_stage = true\nreplicas = "2"\n')
    env = {"FANSTORE_CONFIG": str(file), "FANSTORE_STAGE": "never", "FANSTORE_LOCALDIR": "/x"}
    own = {"MOUNT_PREFIX_2": "/data", "OFF": "0", "ADDED": "1", "LOG_CALLS": "9"}
    env.update({f"FANSTORE_{name}": value for name, value in own.items()})
    done = stage.call("doctor", code=1, **env)
    for said in ("deadline_s from ", "unknown setting keep_stage (is keep_staged meant?)",
                 "stage from FANSTORE_STAGE: 'never' is not one of auto, full, plan, lazy",
                 "unknown variable FANSTORE_LOCALDIR (is FANSTORE_LOCAL_DIR meant?)"):  # fmt: skip
        assert said in done.stdout
    assert done.stdout.count("problem: ") == 4 and "codecs:" in done.stdout
    rows = json.loads(stage.call("doctor", "--json", code=1, **env).stdout)["settings"]
    assert {r["name"]: r["value"] for r in rows if r["name"] in ("replicas", "stage")} == {
        "replicas": "2", "stage": "auto"
    }  # fmt: skip
    file.write_text("= broken")
    assert f"problem: {file}: " in stage.call("doctor", code=1, FANSTORE_CONFIG=str(file)).stdout


def test_the_name_of_a_file_has_no_new_lines(stage: Stage) -> None:
    done = stage.call("run", "--dataset", "none", "--report", "a\nb", "--", "true", code=125)
    assert "--report: 'a\\nb' is not the name of a file without new lines" in done.stderr


def test_doctor_says_what_a_job_would_make_of_a_local_directory_that_is_missing(
    stage: Stage,
) -> None:
    named = str(stage.path / "new/{rank}")
    said = stage.call("doctor", FANSTORE_LOCAL_DIR=named).stdout
    assert f"FANSTORE_LOCAL_DIR: {stage.path}/new/0 (" in said
    assert "free): used; `fanstore run` makes it\n" in said
    assert not (stage.path / "new").exists()
    (stage.path / "file").touch()
    said = stage.call("doctor", FANSTORE_LOCAL_DIR=str(stage.path / "file/new")).stdout
    assert f"missing, and {stage.path}/file is not a directory" in said


@pytest.mark.skipif(find_spec("mpi4py") is None, reason="mpi4py is missing")
def test_doctor_tries_the_transport(stage: Stage, tmp_path: Path) -> None:
    env = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    said = stage.call("doctor", **env).stdout
    assert "transport: built for " in said
    assert list((tmp_path / "cache").rglob("libfanstore_transport-*.so"))
    env["MPICC"] = str(tmp_path / "nothing")
    assert "transport: problem: MPICC names " in stage.call("doctor", **env).stdout


def test_a_transport_that_hangs_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stuck = tmp_path / "mpicc"
    stuck.write_text("#!/bin/sh\nexec sleep 60\n")
    stuck.chmod(0o755)
    monkeypatch.setenv("MPICC", str(stuck))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    problem = trial.attempt(0.5)["problem"]
    assert problem is not None
    assert "took more than 0.5 s" in problem or "mpi4py is not installed" in problem


@pytest.mark.parametrize("name", ["local_bytes", "cache_bytes"])
def test_what_is_worked_out_may_be_asked_for(name: str) -> None:
    found = config.resolve({name: "auto"}, {f"FANSTORE_{name.upper()}": "64M"})
    assert (getattr(found, name), found.sources[name]) == (None, "flag")
    with pytest.raises(UsageError, match=r"from .* to [0-9,]+, such as 64M, or auto"):
        config.resolve({name: "automatic"}, {})


def test_what_is_not_worked_out_may_not() -> None:
    with pytest.raises(UsageError, match="--stage-threads: 'auto' is not a whole number"):
        config.resolve({"stage_threads": "auto"}, {})
