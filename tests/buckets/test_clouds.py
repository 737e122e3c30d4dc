"""Objects of Google's and Azure's stores are read like those of S3, whatever the server does."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from buckets import Fault, TestBucket, bucket_server
from clouds import KINDS, CloudTestBucket, cloud_server
from serving import Stage, make_stage

# Prints size and content of each file below a directory, read twice.
SEE = """
import hashlib, os, sys
def see(top):
    for folder, _, names in os.walk(top):
        for path in (os.path.join(folder, name) for name in names):
            with open(path, "rb") as stream:
                content = stream.read()
            size, digest = os.stat(path).st_size, hashlib.md5(content).hexdigest()
            yield os.path.relpath(path, top), size, digest
found = sorted(see(sys.argv[1]))
assert sorted(see(sys.argv[1])) == found
print(found)
"""
READ = """
import hashlib, os, sys
import fanstore, fsspec
where = sys.argv[1]
dataset = fanstore.Dataset(where)
files = fsspec.filesystem("fanstore", dataset=where)
ways = [dataset.__getitem__, dataset.view, files.cat_file]
ways += [lambda name: dataset.read(name, 0, 7) + dataset.read(name, 7)]
for way in ways:
    print(sorted((name, len(way(name)), hashlib.md5(way(name)).hexdigest()) for name in dataset))
"""
Make = Callable[[], CloudTestBucket]


@pytest.fixture(scope="module", params=KINDS)
def make_cloud(request: pytest.FixtureRequest) -> Iterator[Make]:
    with cloud_server(request.param) as make:
        yield make


@pytest.fixture
def cloud(make_cloud: Make) -> CloudTestBucket:
    return make_cloud()


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return make_stage(tmp_path)


def fill(bucket: TestBucket, source: Path, prefix: str) -> None:
    for path in source.rglob("*"):
        if path.is_file():
            bucket.put(f"{prefix}/{path.relative_to(source)}", path.read_bytes())


def run(
    stage: Stage,
    bucket: TestBucket,
    *command: str,
    below: str = "raw",
    options: tuple[str, ...] = (),
    code: int = 0,
    **env: str,
) -> subprocess.CompletedProcess[str]:
    where = ("--mount", str(stage.mount), "--output-dir", str(stage.path / "out"))
    cache = {"XDG_CACHE_HOME": str(stage.path / "cache")}
    return stage.call(
        "run", f"{bucket.address}/{below}", *where, *options, "--", *command, code=code,
        **cache, **{**bucket.env, **env},
    )  # fmt: skip


def see(where: Path) -> tuple[str, ...]:
    return (sys.executable, "-c", SEE, str(where))


def plain(source: Path) -> str:
    return subprocess.run(see(source), capture_output=True, text=True, check=True).stdout


def several(stage: Stage) -> Path:
    """Files of all sizes, with odd names."""
    files = {f"s/{n}": os.urandom(size) for n, size in enumerate((0, 1, 65537, 300_000, 9 << 20))}
    odd = ("ünï", "a b", "a%20b", "#?+&=", "~'(!)*", "{x}", '^|`<">', "n" * 255, "日本")
    return stage.source(files=files | {f"odd/{name}": name.encode() for name in odd})


def test_it_is_seen_like_a_directory_and_like_s3(stage: Stage, make_cloud: Make) -> None:
    source = several(stage)
    with bucket_server() as make:
        s3 = make()
        fill(s3, source, "raw")
        of_s3 = run(stage, s3, *see(stage.mount)).stdout
    cloud = make_cloud()
    fill(cloud, source, "raw")
    done = run(stage, cloud, *see(stage.mount))
    assert done.stdout == of_s3 == plain(source)
    assert f"{cloud.address}/raw: 14 files, listed in" in done.stderr
    assert cloud.gets["raw/odd/a b"] == 1  # in two epochs
    asked = {key: times for key, times in cloud.gets.items() if "Metadata" not in key}
    assert cloud.signed == sum(asked.values())
    assert stage.leftovers() == []


@pytest.mark.soak
def test_without_a_job(stage: Stage, cloud: CloudTestBucket) -> None:
    source = several(stage)
    fill(cloud, source, "raw")
    fill(cloud, stage.dataset(source), "made")
    env, cache = cloud.env, str(stage.path / "cache")
    for below in ("raw", "made"):
        where = f"{cloud.address}/{below}"
        read = subprocess.run(
            [sys.executable, "-c", READ, where],
            env={**stage.env, **env, "XDG_CACHE_HOME": cache}, capture_output=True, text=True,
        )  # fmt: skip
        assert set(read.stdout.splitlines()) == {plain(source).strip()}, read.stderr
        listed = stage.call("ls", where, XDG_CACHE_HOME=cache, **env).stdout
        assert {"s", "odd"} <= set(listed.replace("/", "").split())
        assert "14" in stage.call("info", where, XDG_CACHE_HOME=cache, **env).stdout
    assert "14 files" in stage.call("verify", f"{cloud.address}/made", **env).stdout


@pytest.mark.soak
def test_a_dataset(stage: Stage, cloud: CloudTestBucket) -> None:
    source = several(stage)
    fill(cloud, source, "raw")
    made = stage.path / "made.fan"
    stage.call("prepare", f"{cloud.address}/raw", str(made), **cloud.env)
    stage.call("extract", str(made), str(stage.path / "extracted"))
    assert subprocess.run(["diff", "-r", source, stage.path / "extracted"]).returncode == 0
    fill(cloud, made, "made")
    for mode in ("auto", "lazy"):
        done = run(stage, cloud, *see(stage.mount), below="made", options=("--stage", mode))
        assert done.stdout == plain(source)


def test_nothing_is_written_there(stage: Stage, cloud: CloudTestBucket) -> None:
    source = stage.source()
    where = f"{cloud.address}/out"
    sentence = f"{where}: can only be read: write to a directory or to an s3:// address"
    refused = stage.call("prepare", str(source), where, code=2, **cloud.env).stderr
    assert sentence in refused
    job = ("run", str(source), "--output-dir", where, "--", "true")
    assert sentence in stage.call(*job, code=125, **cloud.env).stderr
    assert not cloud.writes


def test_marks_of_directories_are_left_out(stage: Stage, cloud: CloudTestBucket) -> None:
    for key in ("raw/x/", "raw/full/", "raw/y/"):
        cloud.put(key, b"")
    for key in ("raw/full/a", "raw/y", "raw/empty"):
        cloud.put(key, b"" if "empty" in key else b"good " + key.encode())
    done = run(stage, cloud, "grep", "-rc", "", str(stage.mount))
    shown = sorted(done.stdout.splitlines())
    assert shown == [f"{stage.mount}/{name}" for name in ("empty:0", "full/a:1", "y:1")]
    assert "left out: full/ (ends with a slash) and 2 more" in done.stderr


def test_a_mark_with_content_is_never_another_object(stage: Stage, cloud: CloudTestBucket) -> None:
    cloud.put("raw/a", b"content")
    cloud.put("raw/a/", b"another")
    cloud.put("raw/b", b"good")
    done = run(stage, cloud, "sh", "-c", f"cd {stage.mount}; cat b; cat a || true")
    assert done.stdout in ("good", "goodcontent")
    assert "left out: a (" in done.stderr


@pytest.mark.parametrize("key", ["a//b", "a/./b", "../c", "t\tb"])
def test_keys_that_are_no_paths_are_named(stage: Stage, cloud: CloudTestBucket, key: str) -> None:
    cloud.put("raw/good", b"good")
    try:
        cloud.put(f"raw/{key}", b"must not be seen")
    except AssertionError:
        pytest.skip("the server refuses such a key")
    said = run(stage, cloud, "true", code=125).stderr
    shown = repr(f"raw/{key}")[1:-1]
    assert f"the key of an object is no path, so obstore lists none: {shown}\n" in said


def test_a_listing_of_many_pages(stage: Stage, make_cloud: Make) -> None:
    cloud = make_cloud()
    count = 1120 if cloud.kind == "gs" else 120  # the others have larger pages
    for number in range(count):
        cloud.put(f"raw/{number}", b"x")
    listed = stage.call("ls", f"{cloud.address}/raw", **cloud.env).stdout.split()
    assert sorted(listed) == sorted(str(number) for number in range(count))
    assert cloud.lists == (1 if count < 1000 else 2)


def test_an_object_that_changes_is_never_another_one(stage: Stage, cloud: CloudTestBucket) -> None:
    old, new = os.urandom(9 << 20), os.urandom(9 << 20)
    for name in ("large", "other", "gone", "same"):
        cloud.put(f"raw/{name}", old)
    script = f"cd {stage.mount}; for f in same large other gone; do md5sum $f; done"
    changed = False

    def change(key: str) -> None:
        nonlocal changed
        if key.startswith("raw/") and not changed:
            changed = True
            cloud.put("raw/other", new)
            cloud.remove("raw/gone")

    cloud.before_get = change
    done = run(stage, cloud, "sh", "-c", script, options=("--stage", "lazy"), code=1)
    right = hashlib.md5(old).hexdigest()
    assert sorted(done.stdout.splitlines()) == [f"{right}  {name}" for name in ("large", "same")]
    assert "is not as it was listed" in done.stderr or "changed" in done.stderr
    assert hashlib.md5(new).hexdigest() not in done.stdout


REQUESTS = r"raw/.*|\?list"  # not for a token
PASSING = {
    "cut": Fault(REQUESTS, times=3, cut=100),
    "unavailable": Fault(REQUESTS, times=3, status=503),
    "too many": Fault(REQUESTS, times=3, status=429),
    "short": Fault(REQUESTS, times=2, length=10),
}


@pytest.mark.parametrize("fault", ["cut", "unavailable", "too many", "short"])
def test_faults_that_pass_are_not_seen(stage: Stage, cloud: CloudTestBucket, fault: str) -> None:
    source = several(stage)
    fill(cloud, source, "raw")
    cloud.faults = [PASSING[fault]]
    assert run(stage, cloud, *see(stage.mount)).stdout == plain(source)
    assert PASSING[fault].times == 0


def test_faults_that_last_are_one_sentence(stage: Stage, cloud: CloudTestBucket) -> None:
    cloud.put("raw/a", b"content")
    cloud.faults = [Fault(r"raw/a", status=403)]
    said = run(stage, cloud, "cat", str(stage.mount / "a"), code=1).stderr
    why = "the server refused a request (403 Test); check the credentials"
    assert f"{cloud.address}/raw: {why}" in said
    cloud.faults = [Fault(r"\?list", status=403)]
    said = run(stage, cloud, "true", code=125).stderr
    assert f"{cloud.address}/raw: {why}" in said and "Traceback" not in said
    cloud.faults = []
    said = run(stage, cloud, "true", below="none", code=125).stderr
    assert f"{cloud.address}/none: there are no objects below this address" in said
    if cloud.kind != "fake-gs":  # which answers as if it failed
        cloud.address += "none"
        said = run(stage, cloud, "true", code=125).stderr
        assert "raw: there is no such bucket at" in said


def test_an_etag_that_does_not_match_is_an_error(stage: Stage, cloud: CloudTestBucket) -> None:
    cloud.put("raw/a", b"content")
    cloud.faults = [Fault("raw/a", etag='"another"')]
    done = run(stage, cloud, "cat", str(stage.mount / "a"), code=1)
    assert done.stdout == "" and "Input/output error" in done.stderr


def test_credentials_stay_where_they_are(stage: Stage, cloud: CloudTestBucket) -> None:
    cloud.put("raw/a", b"content")
    job = run(stage, cloud, "env", options=("--trace", str(stage.path / "trace")))
    secret = cloud.secret.encode()
    assert (secret in job.stdout.encode()) == cloud.is_azure  # as the user set it
    assert secret not in job.stderr.encode()
    files = [path for path in stage.path.rglob("*") if path.is_file()]
    assert files and not any(secret in path.read_bytes() for path in files)


def test_without_credentials_one_sentence_says_so(stage: Stage) -> None:
    pytest.importorskip("obstore")
    gone = {"GOOGLE_APPLICATION_CREDENTIALS": "/nonexistent"}
    said = stage.call("ls", "gs://b/p", code=2, **gone).stderr
    assert "gs://b/p: " in said and "/nonexistent" in said and len(said.splitlines()) == 1
    said = stage.call("ls", "az://b/p", code=2, **gone).stderr
    assert "az://b/p: " in said and "Account must be specified" in said


def test_a_forked_process_is_told(stage: Stage, cloud: CloudTestBucket) -> None:
    cloud.put("raw/a", b"content")
    program = (
        "import fanstore, os, sys\n"
        "dataset = fanstore.Dataset(sys.argv[1])\n"
        "if os.fork() == 0:\n"
        "    try:\n"
        "        dataset['a']\n"
        "    except fanstore.FanstoreError as error:\n"
        "        print(error, flush=True)\n"
        "    os._exit(0)\n"
        "os.wait()\n"
        "print(dataset['a'])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, f"{cloud.address}/raw"],
        env={**stage.env, **cloud.env}, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    told, after = done.stdout.splitlines()
    assert re.search("cannot be read in a forked process; start processes with .*spawn", told)
    assert after == repr(b"content")
