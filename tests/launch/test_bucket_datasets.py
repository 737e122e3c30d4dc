"""A dataset lies in a bucket: a job copies it before the command starts, and programs see what they
would see of one on a file system."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import cast

import pytest
from buckets import BUCKET, Fault, TestBucket
from fault_tools import make_ranks, reader
from mpiexec import needs_ranks
from ranks import make_rank_stage
from serving import Stage, find_content, flip, make_stage, wait_for
from soak import sampled

import fanstore

DATA = f"s3://{BUCKET}/data"
RANGE_BYTES = 8 << 20
# Reads all files of a dataset in several ways, also in a forked process.
READ = """
import hashlib, os, pickle, sys
import fanstore, fsspec
where = sys.argv[1]
dataset = fanstore.Dataset(where)
def see(read):
    return [(name, hashlib.md5(read(name)).hexdigest()) for name in dataset]
found = see(dataset.__getitem__)
files = fsspec.filesystem("fanstore", dataset=where)
ways = [dataset.view, lambda name: dataset.open(name).read(), files.cat_file]
ways += [lambda name: dataset.read(name, 0, 7) + dataset.read(name, 7)]
ways += [pickle.loads(pickle.dumps(dataset)).view]
assert all(see(way) == found for way in ways)
if os.fork() == 0:
    os._exit(see(dataset.__getitem__) != found)
assert os.wait()[1] == 0
with fsspec.open(f"fanstore://{where}!/a") as stream:
    print(found, stream.read() == dataset["a"])
"""


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return make_stage(tmp_path)


def fill(bucket: TestBucket, dataset: Path) -> None:
    for path in dataset.iterdir():
        bucket.put(f"data/{path.name}", path.read_bytes())


def made(stage: Stage, bucket: TestBucket) -> Path:
    """Puts a dataset into the bucket, of which one pack has several ranges. Returns its source."""
    sizes = [0, 1, 65537, 30 << 20] + [5000] * 30
    source = stage.source(files={f"d{n % 3}/{n}": os.urandom(size) for n, size in enumerate(sizes)})
    fill(bucket, stage.dataset(source))
    return source


def run(
    stage: Stage, bucket: TestBucket, *command: str, options: tuple[str, ...] = (), code: int = 0
) -> subprocess.CompletedProcess[str]:
    where = (DATA, "--mount", str(stage.mount), "--output-dir", str(stage.path / "out"))
    cache = str(stage.path / "cache")
    return stage.call(
        "run", *where, *options, "--", *command, code=code, XDG_CACHE_HOME=cache, **bucket.env
    )


def test_it_is_seen_like_its_source(stage: Stage, bucket: TestBucket) -> None:
    source = made(stage, bucket)
    sizes = {name: len(found) for name, found in bucket.objects("data/").items()}
    run(stage, bucket, "diff", "-r", str(source), str(stage.mount), options=("--keep-staged",))
    ranges = {f"data/{n}": -(-size // RANGE_BYTES) for n, size in sizes.items()}
    del ranges["data/manifest.json"]
    assert max(ranges.values()) > 3
    assert bucket.gets == {**ranges, "?list": 1}
    assert bucket.most_at_once > 1
    bucket.gets.clear()
    # --verify: a read of a file that is being checked in the background would come from the bucket
    run(stage, bucket, "diff", "-r", str(source), str(stage.mount), options=("--verify",))
    assert bucket.gets == {"?list": 1}  # everything was kept
    assert stage.leftovers() == []


def test_commands_that_show_it(stage: Stage, bucket: TestBucket) -> None:
    source = made(stage, bucket)
    env = {**bucket.env, "XDG_CACHE_HOME": str(stage.path / "cache")}
    assert stage.call("ls", DATA, **env).stdout == "d0\nd1\nd2\n"
    told = json.loads(stage.call("info", "--json", DATA, **env).stdout)
    here = json.loads(stage.call("info", "--json", str(stage.path / "data")).stdout)
    assert {**told, "directory": ""} == {**here, "directory": ""}
    bucket.gets.clear()
    assert stage.call("verify", DATA, **env).stdout.endswith(": sound\n")
    stage.call("extract", DATA, str(stage.path / "extracted"), "d1", **env)
    assert (
        subprocess.run(["diff", "-r", source / "d1", stage.path / "extracted" / "d1"]).returncode
        == 0
    )
    assert bucket.gets["data/pack-00001.fsp"] == 3  # its header, and its only range twice
    bucket.put("data/pack-00001.fsp", b"x" * 1000)
    lost = f"{DATA}/pack-00001.fsp: file at offset 0: there is no such object of "
    assert lost in stage.call("ls", DATA, code=3, **env).stderr
    assert lost in stage.call("verify", DATA, code=3, **env).stdout


def reads(stage: Stage, bucket: TestBucket, where: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, **bucket.env, "XDG_CACHE_HOME": str(stage.path / "cache")}
    argv = [sys.executable, "-c", READ, where]
    return subprocess.run(argv, env=env, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("codec", sampled(["store", "zstd"], ["store"]))
def test_programs_read_it_without_a_job(stage: Stage, bucket: TestBucket, codec: str) -> None:
    files = {"a": b"a" * 70_000 + os.urandom(9), "d/b": b"b" * (3 << 20), "d/empty": b""}
    dataset = stage.dataset(stage.source(files=files), "data", "--codec", codec)
    fill(bucket, dataset)
    told = reads(stage, bucket, DATA)
    assert told.stdout == reads(stage, bucket, str(dataset)).stdout != "", told.stderr
    pack = bytearray(bucket.objects("data/")["pack-00000.fsp"])
    pack[4096 + 20] ^= 1
    bucket.put("data/pack-00000.fsp", bytes(pack))
    assert (
        f"DatasetDamaged: {DATA}/pack-00000.fsp: content of a at"
        in reads(stage, bucket, DATA).stderr
    )


def test_programs_read_objects_without_a_job(
    stage: Stage, bucket: TestBucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {"a": os.urandom(70_000), "d/b": os.urandom(20 << 20), "d/empty": b""}
    for name, content in files.items():
        bucket.put(f"data/{name}", content)
    told = reads(stage, bucket, DATA)
    dataset = stage.dataset(stage.source(files=files), "packed")
    assert told.stdout == reads(stage, bucket, str(dataset)).stdout != "", told.stderr
    for name, value in {**bucket.env, "XDG_CACHE_HOME": str(stage.path / "cache")}.items():
        monkeypatch.setenv(name, value)
    with fanstore.Dataset(DATA) as objects:
        assert objects.path == DATA
        bucket.put("data/a", os.urandom(70_000))
        with pytest.raises(fanstore.DatasetDamaged, match="data/a: file at offset 0: there is no"):
            objects.read("a", 5, 10)
    said = stage.call("verify", DATA, code=2, **bucket.env).stderr
    assert f"{DATA}: these are objects, not a dataset" in said


class WebServer(SimpleHTTPRequestHandler):
    """A plain web server: it answers ranges, and has no listing and no ETag."""

    def do_GET(self) -> None:
        path = Path(self.translate_path(self.path))
        if not path.is_file():
            self.send_error(404)
            return
        first, last = map(int, self.headers["Range"].removeprefix("bytes=").split("-"))
        body = path.read_bytes()
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {first}-{last}/{len(body)}")
        self.send_header("Content-Length", str(last + 1 - first))
        self.end_headers()
        self.wfile.write(body[first : last + 1])

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def web(stage: Stage) -> Iterator[str]:
    """The address of a web server that shows the stage."""
    for package in ("obstore", "botocore"):
        pytest.importorskip(package, reason=f"{package} is not installed (extra `objects`)")
    with ThreadingHTTPServer(
        ("127.0.0.1", 0), partial(WebServer, directory=str(stage.path))
    ) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@pytest.mark.soak
def test_on_a_web_server(stage: Stage, web: str) -> None:
    sizes = [0, 65537, 20 << 20] + [5000] * 30
    source = stage.source(files={f"d{n % 3}/{n}": os.urandom(size) for n, size in enumerate(sizes)})
    (stage.path / "sets").mkdir()
    dataset = stage.dataset(source, "sets/data")
    env = {"XDG_CACHE_HOME": str(stage.path / "cache")}
    where = ("--mount", str(stage.mount), "--output-dir", str(stage.path / "out"), "--")
    diff = ("diff", "-r", str(source), str(stage.mount))
    for options in ([], ["--stage", "plan"]):
        stage.call("run", *options, f"{web}/sets/data", *where, *diff, **env)
    assert stage.call("verify", f"{web}/sets/data", **env).stdout.endswith(": sound\n")
    other = stage.source("other", {"a": b"new"})
    shutil.rmtree(dataset)
    stage.dataset(other, "sets/data")
    diff = ("diff", "-r", str(other), str(stage.mount))
    stage.call("run", f"{web}/sets/data", *where, *diff, **env)
    done = stage.call("run", f"{web}/plain/d0", *where, "true", code=125, **env)
    assert f"{web}/plain/d0: the server has no listing (404)" in done.stderr


def test_a_command_that_shows_it_can_be_interrupted(stage: Stage, bucket: TestBucket) -> None:
    """Also while its threads wait to ask again."""
    made(stage, bucket)
    bucket.faults = [Fault("data/.*", status=503, headers={"Retry-After": "100"})]
    env = {**bucket.env, "XDG_CACHE_HOME": str(stage.path / "cache")}
    with stage.running("ls", DATA, **env) as command:
        wait_for(lambda: bucket.gets["data/index.fsi"] == 2, "a try that waits")
        command.send_signal(signal.SIGINT)
        assert command.wait(timeout=30) != 0


@pytest.mark.soak
def test_a_new_version_is_seen_by_the_next_job(stage: Stage, bucket: TestBucket) -> None:
    made(stage, bucket)
    run(stage, bucket, "true", options=("--keep-staged",))
    source = stage.source("other", {"a": b"new"})
    shutil.rmtree(stage.path / "data")
    fill(bucket, stage.dataset(source))
    run(stage, bucket, "diff", "-r", str(source), str(stage.mount))


PASSING = {
    "cut": Fault("data/.*", 3, cut=500),
    "503": Fault("data/.*", 3, status=503),
    "slow": Fault("data/.*", 3, delay_s=0.5),
    "short": Fault("data/pack-.*", 2, cut=0),
}


@pytest.mark.parametrize("fault", sampled(PASSING, ["cut"]))
def test_faults_that_pass_are_not_seen(stage: Stage, bucket: TestBucket, fault: str) -> None:
    source = made(stage, bucket)
    bucket.faults = [PASSING[fault]]
    run(stage, bucket, "diff", "-r", str(source), str(stage.mount))
    assert bucket.faults[0].times == 0


@pytest.mark.parametrize("kind", sampled(["403", "gone", "other size"], ["gone"]))
def test_what_cannot_be_copied_is_one_sentence(stage: Stage, bucket: TestBucket, kind: str) -> None:
    made(stage, bucket)
    bucket.faults = [Fault("data/pack-00001.fsp", status=403)] if kind == "403" else []
    if kind == "gone":
        bucket.remove("data/pack-00001.fsp")
    if kind == "other size":
        bucket.put("data/pack-00001.fsp", b"x" * 1000)
    code = 3 if kind in ("gone", "other size") else 125
    done = run(stage, bucket, "true", code=code)
    sentence = {
        "403": f"{DATA}: the server refused a request (403 Test); check the credentials",
    }.get(kind, f"{DATA}/pack-00001.fsp: file at offset 0: there is no such ")
    assert sentence in done.stderr
    assert stage.leftovers() == []


def test_damage_in_the_bucket_is_no_wrong_byte(stage: Stage, bucket: TestBucket) -> None:
    source = stage.source(files={"good": b"g" * 5000, "bad": os.urandom(5000)})
    dataset = stage.dataset(source)
    flip(*find_content(dataset, (source / "bad").read_bytes()))
    fill(bucket, dataset)
    done = run(stage, bucket, "sh", "-c", f"cd {stage.mount}; cat good; cat bad", code=1)
    assert done.stdout == "g" * 5000
    assert "cat: bad: Input/output error" in done.stderr


def test_an_interrupt_does_not_wait_for_the_server(stage: Stage, bucket: TestBucket) -> None:
    made(stage, bucket)
    bucket.faults = [Fault("data/pack-.*", delay_s=25)]
    where = (DATA, "--mount", str(stage.mount), "--output-dir", str(stage.path / "out"))
    env = {**bucket.env, "XDG_CACHE_HOME": str(stage.path / "cache")}
    with stage.running("run", *where, "--", "true", **env) as job:
        wait_for(lambda: any("pack" in key for key in bucket.gets), "a request for a pack")
        job.send_signal(signal.SIGINT)
        assert job.wait(timeout=60) == 130
        assert bucket.at_once > 0  # the server has not answered yet
    assert stage.leftovers() == []


@pytest.mark.soak
def test_a_kept_copy_that_changed_is_copied_again(stage: Stage, bucket: TestBucket) -> None:
    source = made(stage, bucket)
    run(stage, bucket, "true", options=("--keep-staged",))
    for pack in stage.local.rglob("pack-00000.fsp"):
        times = pack.stat()
        flip(pack, 5000)
        os.utime(pack, ns=(times.st_atime_ns, times.st_mtime_ns))
    run(stage, bucket, "diff", "-r", str(source), str(stage.mount))


def test_it_is_not_read_in_place(stage: Stage, bucket: TestBucket) -> None:
    made(stage, bucket)
    done = run(stage, bucket, "true", options=("--in-place",), code=125)
    assert f"{DATA} is a dataset in a bucket: leave out --in-place" in done.stderr


@pytest.mark.parametrize(
    "options",
    sampled(
        [("--stage", "plan"), ("--stage", "lazy"), ("--local-bytes", "1m")], [("--stage", "plan")]
    ),
)
def test_it_is_read_while_the_job_runs(
    stage: Stage, bucket: TestBucket, options: tuple[str, ...]
) -> None:
    source = made(stage, bucket)
    done = run(stage, bucket, "diff", "-r", str(source), str(stage.mount), options=options)
    assert "read later from the bucket with" in done.stderr
    assert bucket.most_at_once > 1


@pytest.mark.soak
def test_beside_a_plain_directory(stage: Stage, bucket: TestBucket) -> None:
    source, other = made(stage, bucket), stage.path / "other"
    more = ("--dataset", str(source), "--mount", str(other))
    script = f"diff -r {source} {stage.mount} && diff -r {source} {other}"
    run(stage, bucket, "sh", "-c", script, options=more)


@needs_ranks
def test_what_a_lost_rank_had_comes_from_the_bucket(tmp_path: Path, bucket: TestBucket) -> None:
    files = {f"f{n:02}": os.urandom(40_000 + n) for n in range(24)}
    own = make_ranks(tmp_path, files, "--partitions", "4")
    assert own.owned(1, 2)
    fill(bucket, own.dataset)
    own.dataset = cast(Path, DATA)
    with own.running(2, reader("a", "b"), **bucket.env) as job:
        job.step("a")
        job.kill(1, "daemon")
        assert job.step("b", ranks=(0,)) == [own.whole]
        assert job.end() == [0, 125], job.said()


@needs_ranks
def test_two_ranks_fetch_each_range_once(tmp_path: Path, bucket: TestBucket) -> None:
    stage = make_rank_stage(tmp_path)
    source = stage.source(files={f"d{n % 3}/{n}": os.urandom(60_000) for n in range(40)})
    fill(bucket, stage.dataset(source))
    options = ["--local-dir", str(stage.path / "r{rank}"), "--mount", str(stage.path / "m{rank}")]
    options += ["--output-dir", str(stage.path / "out"), "--", "diff", "-r", str(source), "{}"]
    argv = [sys.executable, "-m", "fanstore", "run", DATA, *options]
    env = {**bucket.env, "XDG_CACHE_HOME": str(stage.path / "cache")}
    stage.finished(stage.mpiexec(2, *argv), **env)
    assert set(bucket.gets.values()) == {1}
    assert len(bucket.gets) == 4


def test_one_command_makes_a_dataset_of_objects(stage: Stage, bucket: TestBucket) -> None:
    source = stage.source(files={f"d{n % 3}/{n}": os.urandom(5000) for n in range(40)})
    for path in (path for path in source.rglob("*") if path.is_file()):
        bucket.put(f"raw/{path.relative_to(source)}", path.read_bytes())
    target = str(stage.path / "made.fan")
    env = {**bucket.env, "XDG_CACHE_HOME": str(stage.path / "cache")}
    of_jobs = {"FANSTORE_IN_PLACE": "1", "FANSTORE_STAGE": "full", "FANSTORE_REPORT": "report"}
    (stage.path / "config.toml").write_text("keep_staged = true\norder = '/nonexistent'\n")
    of_jobs["FANSTORE_CONFIG"] = str(stage.path / "config.toml")
    options = ("--codec", "lz4", "--quiet", "--json")
    done = stage.call("prepare", f"s3://{BUCKET}/raw", target, *options, **env, **of_jobs)
    assert done.stderr == ""
    assert json.loads(done.stdout)["source"] == f"s3://{BUCKET}/raw"
    assert stage.leftovers() == []
    stage.call("extract", target, str(stage.path / "extracted"))
    assert subprocess.run(["diff", "-r", source, stage.path / "extracted"]).returncode == 0
    said = stage.call("prepare", f"s3://{BUCKET}/raw", code=2, **env).stderr
    assert f"name the dataset to make of s3://{BUCKET}/raw" in said


def prepare(
    stage: Stage, bucket: TestBucket, source: Path | str, *options: str, code: int = 0
) -> subprocess.CompletedProcess[str]:
    env = {**bucket.env, "XDG_CACHE_HOME": str(stage.path / "cache"), "TMPDIR": str(stage.path)}
    words = ("prepare", str(source), DATA, "--partitions", "2", "--quiet", *options)
    done = stage.call(*words, code=code, **env)
    assert not [path for path in stage.path.iterdir() if path.name.startswith("fanstore-")]
    return done


def test_a_dataset_is_made_in_a_bucket(stage: Stage, bucket: TestBucket) -> None:
    files = {
        "d/large": os.urandom(20 << 20),
        **{str(n): b"x" * n for n in range(0, 90_000, 10_000)},
    }
    source = stage.source(files=files)
    sent: list[str] = []
    bucket.before_write = lambda method, key: sent.append(key)
    prepare(stage, bucket, source, "--codec", "zstd")
    here = {
        path.name: path.read_bytes()
        for path in stage.dataset(source, "d", "--codec", "zstd").iterdir()
    }
    assert bucket.objects("data/") == here
    assert sent[-1] == "data/index.fsi"
    assert bucket.begun() == 0
    run(stage, bucket, "diff", "-r", str(source), str(stage.mount))
    said = prepare(stage, bucket, source, code=2).stderr
    assert f"{DATA}: exists already (--force replaces it)" in said
    bucket.put("data/pack-00002.fsp", b"of an older one")
    other = stage.source("other", {"a": b"new"})
    prepare(stage, bucket, other, "--force")
    assert set(bucket.objects("data/")) == set(here)
    run(stage, bucket, "diff", "-r", str(other), str(stage.mount))


@pytest.mark.soak
def test_what_was_sent_is_not_sent_again(stage: Stage, bucket: TestBucket) -> None:
    source = stage.source(files={f"{n}": os.urandom(50_000) for n in range(400)})
    bucket.faults = [Fault("data/pack-00001.fsp", 2, status=403, methods="P.*")]
    assert (
        "the server refused a request (403 Test)" in prepare(stage, bucket, source, code=125).stderr
    )
    assert list(bucket.objects("data/")) == ["pack-00000.fsp"]
    other = stage.source("other", {"a": b"new"})
    said = prepare(stage, bucket, other, code=2).stderr
    assert f"{DATA}/pack-00000.fsp: is of another dataset (--force replaces it)" in said
    bucket.faults, bucket.writes = [], Counter()
    prepare(stage, bucket, source)
    assert {key for method, key in bucket.writes if method != "HEAD"} >= {"data/pack-00001.fsp"}
    assert {method for method, key in bucket.writes if key == "data/pack-00000.fsp"} == {"HEAD"}
    run(stage, bucket, "diff", "-r", str(source), str(stage.mount))


@pytest.mark.parametrize("number", sampled([signal.SIGINT, signal.SIGTERM], [signal.SIGINT]))
def test_an_interrupt_leaves_nothing_half_sent(
    stage: Stage, bucket: TestBucket, number: signal.Signals
) -> None:
    """While parts of a pack wait to be sent again."""
    source = stage.source(files={f"{n}": os.urandom(1 << 20) for n in range(40)})
    bucket.faults = [
        Fault("data/pack-00001.fsp", status=503, methods="PUT", headers={"Retry-After": "100"})
    ]
    env = {**bucket.env, "TMPDIR": str(stage.path)}
    words = ("prepare", str(source), DATA, "--partitions", "2")
    with stage.running(*words, **env) as command:
        wait_for(lambda: bucket.writes["PUT", "data/pack-00001.fsp"], "a part that is refused")
        command.send_signal(number)
        said = command.communicate(timeout=60)[1]
        assert command.returncode == 128 + number
    assert f"{DATA}: run it again to send what is missing" in said
    assert list(bucket.objects("data/")) == ["pack-00000.fsp"]
    assert bucket.begun() == 0
    assert not [path for path in stage.path.iterdir() if path.name.startswith("fanstore-")]
    bucket.faults, bucket.writes = [], Counter()
    prepare(stage, bucket, source)
    assert {method for method, key in bucket.writes if key == "data/pack-00000.fsp"} == {"HEAD"}
    run(stage, bucket, "diff", "-r", str(source), str(stage.mount))


@pytest.mark.soak
def test_objects_become_a_dataset_in_a_bucket(stage: Stage, bucket: TestBucket) -> None:
    source = stage.source(files={f"d{n % 3}/{n}": os.urandom(5000) for n in range(40)})
    for path in (path for path in source.rglob("*") if path.is_file()):
        bucket.put(f"raw/{path.relative_to(source)}", path.read_bytes())
    prepare(stage, bucket, f"s3://{BUCKET}/raw")
    run(stage, bucket, "diff", "-r", str(source), str(stage.mount))
    said = prepare(stage, bucket, f"s3://{BUCKET}", code=2).stderr
    assert f"{DATA}: lies inside the source s3://{BUCKET}" in said
