"""A job reads the objects of a bucket: what programs see is what a directory with the same files
would show, whatever the server does meanwhile."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest
from buckets import BUCKET, SECRET, Fault, TestBucket
from mpiexec import needs_ranks
from ranks import make_rank_stage
from serving import Stage, make_stage
from soak import sampled

from fanstore import _native
from fanstore.job.maps import problem

# Prints each entry below a directory, read twice: kind, size and content.
SEE = r"""
import hashlib, json, os, sys
def see(top):
    found = []
    for folder, names, files in os.walk(top):
        for name in names + files:
            path = os.path.join(folder, name)
            row = [os.path.relpath(path, top), os.path.isdir(path)]
            if not os.path.isdir(path):
                with open(path, "rb") as stream:
                    content = stream.read()
                    stream.seek(len(content) // 2)
                    row += [os.stat(path).st_size, hashlib.md5(content).hexdigest()]
                    row.append(hashlib.md5(stream.read(7)).hexdigest())
            found.append(row)
    return sorted(found)
first = see(sys.argv[1])
assert see(sys.argv[1]) == first
json.dump(first, sys.stdout)
"""


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return make_stage(tmp_path)


def run(
    stage: Stage,
    bucket: TestBucket,
    *command: str,
    source: str = f"s3://{BUCKET}/raw",
    options: tuple[str, ...] = (),
    code: int = 0,
    **env: str,
) -> subprocess.CompletedProcess[str]:
    where = (source, "--mount", str(stage.mount), "--output-dir", str(stage.path / "out"))
    cache = str(stage.path / "cache")
    return stage.call(
        "run", *where, *options, "--", *command, code=code, XDG_CACHE_HOME=cache,
        **{**bucket.env, **env},
    )  # fmt: skip


def see(where: Path) -> tuple[str, ...]:
    return (sys.executable, "-c", SEE, str(where))


def fill(bucket: TestBucket, source: Path, prefix: str = "raw/") -> int:
    """Puts the files of a directory into the bucket; returns how many."""
    files = [path for path in source.rglob("*") if path.is_file()]
    for path in files:
        bucket.put(prefix + str(path.relative_to(source)), path.read_bytes())
    return len(files)


def several(stage: Stage) -> Path:
    """Files of all sizes, with odd names, in several directories."""
    sizes = (0, 1, 4095, 65536, 65537, 300_000, 1 << 20, (1 << 20) + 1, 9 << 20)
    files = {f"s/{n}": os.urandom(size) for n, size in enumerate(sizes)}
    odd = ("ünï", "a b", "a%20b", "#?+&=", "~'(!)*", "{x}", "back\\slash", "n" * 255, "日本")
    files |= {f"odd/{name}": name.encode() for name in odd}
    files |= {f"d{n}/deep/er/{n}": bytes([n]) * 1000 for n in range(9)}
    return stage.source(files=files)


@pytest.mark.parametrize("mode", sampled(["auto", "lazy"], ["lazy"]))
def test_it_is_seen_like_a_directory(stage: Stage, bucket: TestBucket, mode: str) -> None:
    source = several(stage)
    count = fill(bucket, source)
    plain = subprocess.run(see(source), capture_output=True, text=True, check=True).stdout
    done = run(stage, bucket, *see(stage.mount), options=("--stage", mode))
    assert done.stdout == plain
    assert f"s3://{BUCKET}/raw: {count} files, listed in" in done.stderr
    assert "shared file system" not in done.stderr
    requests = sum(bucket.gets.values()) - bucket.lists
    assert f"MiB read later from the bucket with {requests} requests\n" in done.stderr
    small = {key: n for key, n in bucket.gets.items() if key not in ("?list", "raw/s/8")}
    assert set(small.values()) == {1}  # each once, in two epochs
    assert len(small) == count - 2  # not the empty one
    assert stage.leftovers() == []


def test_keys_that_are_no_paths_are_left_out(stage: Stage, bucket: TestBucket) -> None:
    good = ("raw/a", "raw/x/y", "raw/..b", "lead", "raw/b./c")
    odd = ("a//b", "./b", "c/../d", "x/", "/lead", "tab\t", "new\nline", "n" * 256, "a/b/", "x")
    for key in good:
        bucket.put(key, b"good " + key.encode())
    for key in odd:
        bucket.put("raw/" + key, b"must not be seen")
    done = run(stage, bucket, "grep", "-r", "", str(stage.mount))
    shown = sorted(done.stdout.splitlines())
    names = sorted(key for key in good if key.startswith("raw/"))
    assert shown == [f"{stage.mount}/{key[4:]}:good {key}" for key in names]
    assert 'left out: ./b (has a part "." or "..") and 9 more' in done.stderr


def test_a_dataset_is_made_of_a_bucket(stage: Stage, bucket: TestBucket) -> None:
    source = several(stage)
    count = fill(bucket, source)
    target = str(stage.path / "made.fan")
    run(stage, bucket, sys.executable, "-m", "fanstore", "prepare", str(stage.mount), target)
    assert f"{count} files" in stage.call("verify", target).stdout
    stage.call("extract", target, str(stage.path / "extracted"))
    assert subprocess.run(["diff", "-r", source, stage.path / "extracted"]).returncode == 0
    bucket.put("raw/index.fsi", b"x")
    said = run(stage, bucket, "true", code=125).stderr
    assert f"s3://{BUCKET}/raw is no dataset: " in said and "index.fsi: header at " in said


def test_a_whole_bucket(stage: Stage, bucket: TestBucket) -> None:
    bucket.put("a/b", b"content")
    command = ("cat", str(stage.mount / "a" / "b"))
    assert run(stage, bucket, *command, source=f"s3://{BUCKET}").stdout == "content"


@pytest.mark.soak
def test_commands_that_show_a_dataset(stage: Stage, bucket: TestBucket) -> None:
    bucket.put("raw/d/a", b"12345")
    env = {**bucket.env, "XDG_CACHE_HOME": str(stage.path / "cache")}
    shown = stage.call("ls", "-R", f"s3://{BUCKET}/raw", **env)
    assert shown.stdout == "d\nd/a\n"
    told = stage.call("info", "--json", f"s3://{BUCKET}/raw", **env)
    assert json.loads(told.stdout)["logical_bytes"] == 5
    assert json.loads(told.stdout)["directory"] == f"s3://{BUCKET}/raw"


@pytest.mark.soak
def test_a_listing_of_many_pages(stage: Stage, bucket: TestBucket) -> None:
    for n in range(1500):
        bucket.put(f"raw/{n % 37:02}/{n:04}", b"")
        if n % 300 == 0:
            bucket.put(f"raw/flat{n}", b"")
    done = run(stage, bucket, "find", str(stage.mount), "-type", "f")
    assert len(set(done.stdout.split())) == len(done.stdout.split()) == 1505
    assert "1,505 files" in done.stderr


@pytest.mark.soak
def test_a_later_job_sees_what_changed(stage: Stage, bucket: TestBucket) -> None:
    bucket.put("raw/a", b"old")
    command = ("cat", str(stage.mount / "a"))
    assert run(stage, bucket, *command).stdout == "old"
    kept = sorted((stage.path / "cache").rglob("index.fsi"))
    assert run(stage, bucket, *command).stdout == "old"
    assert sorted((stage.path / "cache").rglob("index.fsi")) == kept
    bucket.put("raw/a", b"new")
    assert run(stage, bucket, *command).stdout == "new"


@pytest.mark.parametrize("change", sampled(["replaced", "removed", "other size"], ["replaced"]))
def test_an_object_that_changes_during_the_job(
    stage: Stage, bucket: TestBucket, change: str
) -> None:
    bucket.put("raw/a", b"a" * 1000)
    bucket.put("raw/b", b"b")
    changes = {
        "replaced": Fault("raw/a", etag='"0123456789"'),
        "removed": Fault("raw/a", status=404),
    }
    bucket.faults = [changes[change]] if change in changes else []
    if change == "other size":
        bucket.before_get = lambda key: bucket.put("raw/a", b"c" * 1001)
    script = f"cd {stage.mount}; cat b; cat a; cat a"
    done = run(stage, bucket, "sh", "-c", script, code=1)
    assert done.stdout == "b"
    assert done.stderr.count("cat: a: Input/output error") == 2
    assert done.stderr.count("1 file changed since the listing, such as a") == 1


PASSING = {
    "slow": Fault("raw/.*", 3, delay_s=0.5),
    "cut": Fault("raw/.*", 3, cut=500),
    "no body": Fault("raw/.*", 3, cut=0),
    "wrong length": Fault("raw/.*", 3, length=1),
    "429": Fault("raw/.*", 3, status=429, headers={"Retry-After": "1"}),
    "500": Fault("raw/.*", 3, status=500),
    "503": Fault("raw/.*", 3, status=503),
    "listing": Fault(r"\?list", 2, status=503),
    "listing later": Fault(r"\?list", 1, status=429, headers={"Retry-After": "1"}),
}


@pytest.mark.parametrize("fault", sampled(PASSING, ["cut", "429", "listing"]))
def test_faults_that_pass_are_not_seen(stage: Stage, bucket: TestBucket, fault: str) -> None:
    source = stage.source()
    fill(bucket, source)
    bucket.faults = [PASSING[fault]]
    plain = subprocess.run(see(source), capture_output=True, text=True, check=True).stdout
    assert run(stage, bucket, *see(stage.mount)).stdout == plain
    assert bucket.faults[0].times == 0


LASTING = {
    "403": (Fault("raw/a", status=403), "the server refused a request (403 Test)"),
    "400": (Fault("raw/a", status=400), "the server refused a request (400 Test)"),
    "503": (Fault("raw/a", status=503), "no answer within 1 s; the last try failed: 503 Test"),
    "cut": (Fault("raw/a", cut=1), "within 1 s; the last try failed: the answer was not whole"),
}


@pytest.mark.soak
def test_a_large_object_comes_in_several_ranges_at_once(stage: Stage, bucket: TestBucket) -> None:
    content = os.urandom(45 << 20)
    bucket.put("raw/big", content)
    bucket.faults = [Fault("raw/big", delay_s=0.3)]
    warm = f"{shlex.quote(sys.executable)} -m fanstore warmup {stage.mount}/big"
    script = f"until {warm}; do sleep 0.1; done; md5sum {stage.mount}/big"
    done = run(stage, bucket, "sh", "-c", script)
    assert hashlib.md5(content).hexdigest() in done.stdout
    assert bucket.most_at_once >= 4
    assert bucket.gets["raw/big"] == 6


TOUCH = """
import mmap, sys
with open(sys.argv[1], "rb") as stream:
    mapping = mmap.mmap(stream.fileno(), 0, prot=mmap.PROT_READ)
print([mapping[at] for at in range(0, len(mapping), 5 << 20)])
"""


@pytest.mark.skipif(bool(problem()), reason=f"no map server here: {problem()}")
def test_a_large_object_is_mapped_by_need(stage: Stage, bucket: TestBucket) -> None:
    content = os.urandom(40 << 20)
    bucket.put("raw/big", content)
    options = ("--stage", "lazy")
    done = run(stage, bucket, sys.executable, "-c", TOUCH, f"{stage.mount}/big", options=options)
    assert done.stdout == f"{[content[at] for at in range(0, len(content), 5 << 20)]}\n"
    # 64 KiB a touch, at times in two parts
    assert 0 < bucket.gets["raw/big"] <= 3 * 8
    assert "1 MiB read later" in re.sub(r"\.\d", "", done.stderr)


def test_a_server_that_hangs_ends_no_job(stage: Stage, bucket: TestBucket) -> None:
    bucket.put("raw/a", b"a")
    bucket.faults = [Fault("raw/a", delay_s=25)]
    command = ("cat", str(stage.mount / "a"))
    done = run(stage, bucket, *command, code=1, FANSTORE_SHARED_DEADLINE_S="1")
    assert "cat: " in done.stderr and "Input/output error" in done.stderr
    assert stage.leftovers() == []


@pytest.mark.parametrize("fault", sampled(LASTING, ["403", "503"]))
def test_faults_that_last_are_errors(stage: Stage, bucket: TestBucket, fault: str) -> None:
    for name in "ab":
        bucket.put(f"raw/{name}", name.encode() * 100)
    bucket.faults, sentence = [LASTING[fault][0]], LASTING[fault][1]
    script = f"cd {stage.mount}; cat a; cat b; cat a"
    done = run(stage, bucket, "sh", "-c", script, code=1, FANSTORE_SHARED_DEADLINE_S="1")
    assert done.stdout == "b" * 100
    assert done.stderr.count("cat: a: Input/output error") == 2
    assert done.stderr.count(sentence) == 1


@pytest.mark.parametrize(
    ("status", "source", "sentence"),
    [
        (403, f"s3://{BUCKET}/raw", "the server refused a request (403 Test); check the cred"),
        (0, "s3://no-such-bucket", "there is no such bucket"),
        (0, f"s3://{BUCKET}/nothing", "there are no objects below this address"),
        (0, "ftp://bucket/x", "gs://, az:// and https:// addresses are known, not ftp://"),
        (0, "s3:///x", "names no bucket"),
        (0, f"s3://{BUCKET}/a//b", "has an empty part"),
    ],
)
def test_what_cannot_be_listed(
    stage: Stage, bucket: TestBucket, status: int, source: str, sentence: str
) -> None:
    bucket.put("raw/a", b"a")
    bucket.faults = [Fault(r"\?list", status=status)] if status else []
    done = run(stage, bucket, "true", source=source, code=125)
    assert sentence in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert stage.leftovers() == []


def test_without_the_packages_one_sentence_says_so(stage: Stage, bucket: TestBucket) -> None:
    (stage.path / "hidden").mkdir()
    (stage.path / "hidden" / "obstore.py").write_text("raise ImportError('hidden')")
    done = run(stage, bucket, "true", code=125, PYTHONPATH=str(stage.path / "hidden"))
    assert "pip install 'fanstore-fs[objects]'" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_credentials_stay_where_they_are(stage: Stage, bucket: TestBucket) -> None:
    bucket.put("raw/a", b"a" * 1000)
    bucket.faults = [Fault("raw/a", status=403)]
    profile = stage.path / "profile"
    profile.write_text(
        f"[default]\naws_access_key_id = key-of-the-tests\naws_secret_access_key = {SECRET}\n"
    )
    env = {**bucket.env, "AWS_SHARED_CREDENTIALS_FILE": str(profile)}
    del env["AWS_SECRET_ACCESS_KEY"], env["AWS_ACCESS_KEY_ID"]
    script = f"cat {stage.mount}/a; grep -rlE 'secret-of|key-of' {stage.local} /proc/self/environ"
    report = str(stage.path / "report")
    words = ("run", f"s3://{BUCKET}/raw", "--mount", str(stage.mount), "--report", report)
    words += ("--output-dir", str(stage.path / "out"), "--", "sh", "-c", script)
    done = stage.call(*words, code=1, XDG_CACHE_HOME=str(stage.path / "cache"), **env)
    assert done.stdout == ""
    assert "secret-of" not in done.stderr and "key-of" not in done.stderr
    profile.unlink()
    for path in stage.path.rglob("*"):
        content = path.read_bytes() if path.is_file() else b""
        assert b"secret-of" not in content and b"key-of" not in content, path


def test_the_server_says_how_long_to_wait(stage: Stage, bucket: TestBucket) -> None:
    """The second refusal is seen with its header, and nothing is asked before that time."""
    bucket.put("raw/a", b"a" * 100)
    bucket.faults = [Fault("raw/a", status=503, headers={"Retry-After": "100"})]
    command = ("cat", str(stage.mount / "a"))
    done = run(stage, bucket, *command, code=1, FANSTORE_SHARED_DEADLINE_S="20")
    assert "no answer within 20 s; the last try failed: 503 Test" in done.stderr
    assert bucket.gets["raw/a"] in (2, 4)  # 4: if it was also brought ahead


@needs_ranks
@pytest.mark.soak
def test_a_listing_may_take_longer_than_ranks_wait(tmp_path: Path, bucket: TestBucket) -> None:
    stage = make_rank_stage(tmp_path)
    bucket.put("raw/a", b"content")
    bucket.faults = [Fault(r"\?list", delay_s=6)]
    options = ["--local-dir", str(stage.path / "r{rank}"), "--mount", str(stage.path / "m{rank}")]
    options += ["--output-dir", str(stage.path / "out"), "--", "cat", "{}/a"]
    argv = [sys.executable, "-m", "fanstore", "run", f"s3://{BUCKET}/raw", *options]
    env = {**bucket.env, "XDG_CACHE_HOME": str(stage.path / "cache"), "FANSTORE_PEER_WAIT_S": "2"}
    assert stage.finished(stage.mpiexec(2, *argv), **env).stdout == "content" * 2


@needs_ranks
@pytest.mark.parametrize("mode", sampled(["plan", "lazy"], ["plan"]))
def test_two_ranks_fetch_each_object_once(tmp_path: Path, bucket: TestBucket, mode: str) -> None:
    stage = make_rank_stage(tmp_path)
    source = stage.source(files={f"d{n % 3}/{n}": os.urandom(60_000) for n in range(40)})
    fill(bucket, source)
    options = ["--local-dir", str(stage.path / "r{rank}"), "--mount", str(stage.path / "m{rank}")]
    options += ["--stage", mode, "--output-dir", str(stage.path / "out")]
    argv = [sys.executable, "-m", "fanstore", "run", f"s3://{BUCKET}/raw", *options]
    script = f'"{sys.executable}" -c "$SEE" "$0" > {stage.path}/seen-$(basename "$0")'
    argv += ["--", "sh", "-c", script, "{}"]
    env = {**bucket.env, "XDG_CACHE_HOME": str(stage.path / "cache"), "SEE": SEE}
    stage.finished(stage.mpiexec(2, *argv), **env)
    plain = subprocess.run(see(source), capture_output=True, text=True, check=True).stdout
    for rank in range(2):  # in files, because mpiexec may mix what the ranks print
        assert (stage.path / f"seen-m{rank}").read_text() == plain
    once = {key: n for key, n in bucket.gets.items() if key != "?list"}
    assert set(once.values()) == {1}
    assert len(once) == 40


def test_objects_come_through_obstore(stage: Stage, bucket: TestBucket) -> None:
    count = fill(bucket, stage.source())
    run(stage, bucket, *see(stage.mount))
    assert bucket.agents == {"object_store": count}


def test_no_request_comes_before_its_time(stage: Stage, bucket: TestBucket) -> None:
    bucket.put("raw/a", b"content")
    cat = ("timeout", "-s", "KILL", "5", "cat", str(stage.mount / "a"))
    run(stage, bucket, *cat, options=("--bucket-requests-per-s", "0.001"), code=137)
    assert bucket.gets == {"?list": 1}
    assert run(stage, bucket, *cat).stdout == "content"


@pytest.mark.soak
@needs_ranks
def test_ranks_share_the_rate_of_the_job(tmp_path: Path, bucket: TestBucket) -> None:
    stage = make_rank_stage(tmp_path)
    fill(bucket, stage.source(files={f"{n}": bytes(1000) for n in range(60)}))
    options = ["--local-dir", str(stage.path / "r{rank}"), "--mount", str(stage.path / "m{rank}")]
    options += ["--output-dir", str(stage.path / "out"), "--bucket-bytes-per-s", "12000"]
    argv = [sys.executable, "-m", "fanstore", "run", f"s3://{BUCKET}/raw", *options]
    argv += ["--", "sh", "-c", 'cat "$0"/* > /dev/null', "{}"]
    env = {**bucket.env, "XDG_CACHE_HOME": str(stage.path / "cache")}
    begun_s = time.monotonic()
    stage.finished(stage.mpiexec(2, *argv), **env)
    most = 2 + 12 * (time.monotonic() - begun_s)
    assert 60 <= bucket.gets.total() - bucket.lists <= most


@pytest.mark.soak
def test_a_job_takes_over_what_an_earlier_one_kept(stage: Stage, bucket: TestBucket) -> None:
    source = stage.source()
    count = fill(bucket, source)
    plain = subprocess.run(see(source), capture_output=True, text=True, check=True).stdout
    for _ in range(2):
        done = run(stage, bucket, *see(stage.mount), options=("--keep-staged",))
        assert done.stdout == plain
    assert sum(bucket.gets.values()) - bucket.lists == count


@pytest.mark.soak
def test_another_region_is_named(stage: Stage, bucket: TestBucket) -> None:
    bucket.put("raw/a", b"a")
    headers = {"x-amz-bucket-region": "eu-north-1"}
    bucket.faults = [Fault(r"\?list", status=301, headers=headers)]
    done = run(stage, bucket, "true", code=125)
    assert "is in region eu-north-1: set AWS_DEFAULT_REGION" in done.stderr


KILL_DAEMON = """
import os, sys
from pathlib import Path
wrapper = os.getppid()
for pid in Path(f"/proc/{wrapper}/task/{wrapper}/children").read_text().split():
    if Path(f"/proc/{pid}/comm").read_text().strip() == "fanstore-daemon":
        os.kill(int(pid), 9)
try:
    open(sys.argv[1]).read()
except OSError as error:
    print(os.strerror(error.errno))
"""


def test_without_the_daemon_reads_are_errors(stage: Stage, bucket: TestBucket) -> None:
    bucket.put("raw/a", b"a")
    command = (sys.executable, "-c", KILL_DAEMON, str(stage.mount / "a"))
    done = run(stage, bucket, *command, options=("--stage", "lazy"), code=125)
    assert done.stdout == "Input/output error\n"


@pytest.mark.soak
def test_a_library_in_a_bucket(stage: Stage, bucket: TestBucket) -> None:
    library = Path(_native.__file__).with_name("libfanstore_core.so")
    bucket.put("raw/lib.so", library.read_bytes())
    script = "import ctypes, sys; print(ctypes.CDLL(sys.argv[1]).fan_layout_table is not None)"
    command = (sys.executable, "-c", script, str(stage.mount / "lib.so"))
    assert run(stage, bucket, *command).stdout == "True\n"


@pytest.mark.soak
def test_a_bucket_and_a_directory_in_one_job(stage: Stage, bucket: TestBucket) -> None:
    source = stage.source()
    bucket.put("raw/a", b"of the bucket")
    more = ("--dataset", str(source), "--mount", str(stage.path / "other"))
    script = f"cat {stage.mount}/a {stage.path}/other/f00"
    done = run(stage, bucket, "sh", "-c", script, options=more)
    assert done.stdout == "of the bucket" + "\0" * 1000


def test_a_profile_that_is_not_there(stage: Stage, bucket: TestBucket) -> None:
    done = run(stage, bucket, "true", code=125, AWS_PROFILE="nobody")
    assert "s3://bucket/raw: The config profile (nobody) could not be found" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.soak
def test_a_report_counts_the_requests(stage: Stage, bucket: TestBucket) -> None:
    source = stage.source()
    count = fill(bucket, source)
    bucket.faults = [Fault("raw/f00", 2, status=503)]
    report = stage.path / "report"
    run(stage, bucket, *see(stage.mount), options=("--report", str(report)))
    found = json.loads((report / "report.json").read_text())["buckets"]
    size = sum(map(len, stage.files.values()))
    assert found == {"requests": count + 2, "failed": 2, "bytes": size}


EXPIRING = """
import datetime, json, time
now = time.time()
end = datetime.datetime.fromtimestamp(now + 3, datetime.timezone.utc).isoformat()
key = {"AccessKeyId": f"made-{now:.2f}", "SecretAccessKey": "s", "SessionToken": "t"}
print(json.dumps({"Version": 1, **key, "Expiration": end}))
"""


@pytest.mark.soak
def test_credentials_that_expire_are_renewed(stage: Stage, bucket: TestBucket) -> None:
    """The server takes a key for four seconds, and the job reads for longer."""
    for name in "abc":
        bucket.put(f"raw/{name}", name.encode() * 100)
    made: set[str] = set()

    def is_young(key: str) -> bool:
        made.add(key)
        return time.time() - float(key.removeprefix("made-")) < 4

    bucket.accepts = is_young
    (stage.path / "key.py").write_text(EXPIRING)
    config = stage.path / "config"
    asks = shlex.join([sys.executable, str(stage.path / "key.py")])
    config.write_text(f"[profile expiring]\ncredential_process = {asks}\n")
    script = f"cd {stage.mount}; cat a; sleep 5; cat b; sleep 5; cat c"
    keys = dict.fromkeys(("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"), "")
    done = run(
        stage, bucket, "sh", "-c", script, **keys, AWS_CONFIG_FILE=str(config),
        AWS_PROFILE="expiring", options=("--stage", "lazy"),
    )  # fmt: skip
    assert done.stdout == "a" * 100 + "b" * 100 + "c" * 100
    assert len(made) > 2


@pytest.mark.soak
def test_without_credentials_requests_are_not_signed(stage: Stage, bucket: TestBucket) -> None:
    bucket.put("raw/a", b"public")
    bucket.publish("raw/a")
    env = {key: "" for key in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")}
    command = ("cat", str(stage.mount / "a"))
    assert run(stage, bucket, *command, AWS_EC2_METADATA_DISABLED="true", **env).stdout == "public"
    assert bucket.signed == 0
    assert run(stage, bucket, *command).stdout == "public"
    assert bucket.signed == 2  # the listing and the object
    done = run(stage, bucket, *command, source=f"{bucket.url}/{BUCKET}/raw")
    assert done.stdout == "public"
    assert bucket.signed == 2
