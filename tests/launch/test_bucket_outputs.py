"""Outputs of a job go to a bucket: what lies there is what would lie in an output directory,
whatever the server does meanwhile, or it is kept on the node and named."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from buckets import BUCKET, SECRET, Fault, TestBucket
from mpiexec import needs_ranks
from ranks import make_rank_stage
from serving import Stage, command_of, daemon_of, make_stage, runs, wait_for
from soak import sampled

from fanstore.buckets.writing import PART_BYTES

OUT = f"s3://{BUCKET}/run"
OUTPUTS = r"run/(?!\.fanstore-trial).*"  # their keys

# Makes files of many sizes, and changes them; waits now and then, so that stage-out sees versions.
WRITE = r"""
import os, random, sys, time
os.chdir(sys.argv[1])
part = int(sys.argv[2])
def fill(name, size):
    os.makedirs(os.path.dirname(name) or ".", exist_ok=True)
    with open(name, "wb") as stream:
        stream.write(random.Random(size).randbytes(size))
for size in (0, 1, 65537, part - 1, part, part + 1, 3 * part + 17):
    fill(f"sizes/{size}", size)
for name in ("ünï", "a b", "a%20b", "#?+&=", "~'(!)*", "n" * 255):
    fill(f"odd/{name}", len(name))
fill("last.pt", 1000)
fill("moved", 2000)
fill("gone", 3000)
fill("grows", 4000)
time.sleep(1)
fill("last.tmp", 1001)
os.rename("last.tmp", "last.pt")
os.rename("moved", "there")
os.unlink("gone")
open("grows", "ab").write(b"more")
os.link("there", "second")
os.chmod("odd/a b", 0)
"""


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    stage = make_stage(tmp_path)
    stage.source(files={"input": b"input"})
    return stage


def words(stage: Stage, *command: str, out: str = OUT) -> tuple[str, ...]:
    where = (str(stage.path / "plain"), "--mount", str(stage.mount), "--output-dir", out)
    return ("run", *where, "--", *command)


def run(
    stage: Stage, bucket: TestBucket, script: str, out: str = OUT, code: int = 0, **env: str
) -> subprocess.CompletedProcess[str]:
    """Runs a script of the shell in the mount."""
    command = ("sh", "-c", f"cd {stage.mount}; {script}")
    return stage.call(*words(stage, *command, out=out), code=code, **{**bucket.env, **env})


def until(stage: Stage) -> str:
    """Returns a step of a script that waits for a file."""
    return f"until [ -e {stage.path}/go ]; do sleep 0.05; done"


def kept_at(stage: Stage, said: str) -> Path:
    """Returns the folder in which outputs were kept, which a line of the job names."""
    found = re.search(r"kept (?:on this node instead:|in) (.*)", said)
    assert found is not None, said
    assert Path(found[1]).is_relative_to(stage.local)
    return Path(found[1])


def test_they_are_as_in_a_directory(stage: Stage, bucket: TestBucket) -> None:
    command = (sys.executable, "-c", WRITE, str(stage.mount), str(PART_BYTES))
    stage.call(*words(stage, *command, out=str(stage.path / "out")))
    done = stage.call(*words(stage, *command), **bucket.env)
    files = [path for path in (stage.path / "out").rglob("*") if path.is_file()]
    (stage.path / "out" / "odd" / "a b").chmod(0o600)
    there = {str(path.relative_to(stage.path / "out")): path.read_bytes() for path in files}
    assert bucket.objects("run/") == there
    assert len(there) == 17
    assert bucket.begun() == 0
    assert f"outputs: 17 files in {OUT} (" in done.stderr
    assert stage.leftovers() == []


def test_an_object_that_is_there_stays(stage: Stage, bucket: TestBucket) -> None:
    big = f"head -c {PART_BYTES + 1} /dev/zero > big"
    bucket.put("run/old", b"somebody's", mark="no number")
    bucket.put("run/big", b"somebody's")
    done = run(stage, bucket, f"echo mine > old; {big}; echo new > new", code=125)
    assert f"{OUT} has objects already" in done.stderr
    assert f"not in {OUT}: big: an object of this name was there already" in done.stderr
    assert bucket.objects("run/") == {
        "old": b"somebody's", "big": b"somebody's", "new": b"new\n",
    }  # fmt: skip
    assert (kept_at(stage, done.stderr) / "old").read_text() == "mine\n"
    assert bucket.writes["PUT", "run/big"] == 0  # nothing was sent in vain


@pytest.mark.soak
def test_an_object_that_somebody_replaces_stays(stage: Stage, bucket: TestBucket) -> None:
    script = f"echo 1 > last; {until(stage)}; echo 2 > last"
    with stage.running(
        *words(stage, "sh", "-c", f"cd {stage.mount}; {script}"), **bucket.env
    ) as job:
        wait_for(lambda: bucket.objects("run/") == {"last": b"1\n"}, "the first version")
        bucket.put("run/last", b"somebody's")
        (stage.path / "go").touch()
        _, said = job.communicate(timeout=60)
    assert job.returncode == 125
    assert bucket.objects("run/") == {"last": b"somebody's"}
    assert (kept_at(stage, said) / "last").read_text() == "2\n"


def test_an_object_that_somebody_replaces_is_not_removed(stage: Stage, bucket: TestBucket) -> None:
    """Somebody replaces it between FanStore's look and the removal."""

    def replace(method: str, key: str) -> None:
        if method == "DELETE" and key == "run/gone":
            bucket.put(key, b"somebody's")

    bucket.before_write = replace
    script = f"echo 1 > gone; echo 2 > old; {until(stage)}; rm gone old"
    with stage.running(
        *words(stage, "sh", "-c", f"cd {stage.mount}; {script}"), **bucket.env
    ) as job:
        wait_for(lambda: "old" in bucket.objects("run/"), "the outputs")
        (stage.path / "go").touch()
        assert job.wait(timeout=60) == 0
    assert bucket.objects("run/") == {"gone": b"somebody's"}


@pytest.mark.soak
def test_an_object_that_cannot_be_removed_is_named(stage: Stage, bucket: TestBucket) -> None:
    """A server may refuse the condition with which an object is removed."""
    bucket.faults = [Fault("run/gone", methods="DELETE", status=501)]
    script = f"echo 1 > gone; {until(stage)}; rm gone"
    with stage.running(
        *words(stage, "sh", "-c", f"cd {stage.mount}; {script}"), **bucket.env
    ) as job:
        wait_for(lambda: "gone" in bucket.objects("run/"), "the output")
        (stage.path / "go").touch()
        said = job.communicate(timeout=60)[1]
    assert job.returncode == 125
    assert "gone: could not be removed: " in said
    assert bucket.objects("run/") == {"gone": b"1\n"}


def test_a_checkpoint_appears_when_it_is_whole(stage: Stage, bucket: TestBucket) -> None:
    """Also, a marker that is written after it does not appear before it."""
    bucket.faults = [Fault("run/ck", 1, methods="PUT", delay_s=1.5)]
    script = f"head -c {2 * PART_BYTES} /dev/zero > ck; echo done > marker"
    seen: list[set[str]] = []
    with stage.running(
        *words(stage, "sh", "-c", f"cd {stage.mount}; {script}"), **bucket.env
    ) as job:
        while job.poll() is None:
            seen.append(set(bucket.objects("run/")))
        assert job.returncode == 0
    assert set(map(frozenset, seen)) <= {
        frozenset(),
        frozenset({"ck"}),
        frozenset({"ck", "marker"}),
    }
    assert {name: len(found) for name, found in bucket.objects("run/").items()} == {
        "ck": 2 * PART_BYTES, "marker": 5,
    }  # fmt: skip


PASSING = {
    "503": Fault(OUTPUTS, 3, methods="PUT", status=503),
    "429": Fault(OUTPUTS, 1, methods="PUT", status=429, headers={"Retry-After": "1"}),
    "slow": Fault(OUTPUTS, 3, methods="PUT", delay_s=0.5),
    "lost": Fault(OUTPUTS, 2, methods="PUT", lost=True),
    "lost end": Fault("run/big", 1, methods="POST", lost=True),
    "begin": Fault(OUTPUTS, 2, methods="POST", status=500),
}


@pytest.mark.parametrize("fault", sampled(PASSING, ["lost"]))
def test_faults_that_pass_are_not_seen(stage: Stage, bucket: TestBucket, fault: str) -> None:
    bucket.faults = [PASSING[fault]]
    big = f"head -c {PART_BYTES + 1} /dev/zero > big"
    done = run(stage, bucket, f"echo a > a; {big}; echo b > b")
    found = bucket.objects("run/")
    assert found == {"a": b"a\n", "b": b"b\n", "big": b"\0" * (PART_BYTES + 1)}
    assert "not in" not in done.stderr
    assert bucket.faults[0].times == 0
    if fault == "lost end":
        assert bucket.writes["PUT", "run/big"] == 2  # not sent again


NOT_TAKEN = {
    "refused": Fault("run/bad", methods="PUT", status=403),
    "failing": Fault("run/bad", methods="PUT", status=500),
    "silent": Fault(OUTPUTS, methods="PUT", dropped=True),
}


@pytest.mark.parametrize("when", sampled(NOT_TAKEN, ["refused"]))
def test_outputs_that_cannot_be_placed_are_kept(
    stage: Stage, bucket: TestBucket, when: str
) -> None:
    """If the bucket answers, later outputs are placed nevertheless."""
    bucket.faults = [NOT_TAKEN[when]]
    script = f"head -c {PART_BYTES + 1} /dev/zero > bad; echo 1 > good; echo 2 > last"
    done = run(stage, bucket, script, code=125, FANSTORE_OUTPUT_WAIT_S="0")
    late = f"s3://{BUCKET}/run/bad: no answer within 10 s; the last try failed:"
    why = {
        "refused": f"{OUT}: the server refused a request (403 Test); check the credentials",
        "failing": f"{late} 500 Test",
        "silent": f"{late} HTTP error: ConnectionClosedError",
    }[when]
    assert f"bad: {why}" in done.stderr
    kept = kept_at(stage, done.stderr)
    assert (kept / "bad").stat().st_size == PART_BYTES + 1
    assert set(bucket.objects("run/")) == (set() if when == "silent" else {"good", "last"})
    assert bucket.writes["PUT", "run/last"] == (when != "silent")
    assert bucket.begun() == 0


def test_each_name_of_a_file_is_named(stage: Stage, bucket: TestBucket) -> None:
    bucket.faults = [Fault("run/(one|two)", methods="PUT", status=403)]
    done = run(stage, bucket, "echo 1 > one; ln one two; ln one three", code=125)
    for name in ("one", "two"):
        assert f"not in {OUT}: {name}: {OUT}: the server refused a request (403" in done.stderr
        assert (kept_at(stage, done.stderr) / name).read_bytes() == b"1\n"
    assert bucket.objects("run/") == {"three": b"1\n"}


@pytest.mark.soak
def test_a_link_is_named(stage: Stage, bucket: TestBucket) -> None:
    done = run(stage, bucket, "echo 1 > a; ln -s a latest", code=125)
    assert f"not in {OUT}: latest: a bucket has no links, and no names other" in done.stderr
    assert (kept_at(stage, done.stderr) / "latest").readlink() == Path("a")


@pytest.mark.parametrize("who", sampled(["daemon", "both"], ["daemon"]))
def test_outputs_of_a_killed_job_are_placed(stage: Stage, bucket: TestBucket, who: str) -> None:
    """Those that were placed before stay, and a version that nobody knows to be placed, too."""
    bucket.faults = [Fault("run/unsure", 1, methods="PUT", lost=True)]
    script = f"echo 1 > early; echo 2 > unsure; {until(stage)}; echo 3 > late"
    with stage.running(
        *words(stage, "sh", "-c", f"cd {stage.mount}; {script}"), **bucket.env
    ) as job:
        wait_for(lambda: "unsure" in bucket.objects("run/"), "the outputs")
        daemon, command = daemon_of(job.pid), command_of(job.pid)
        os.kill(daemon, signal.SIGKILL)
        if who == "both":
            job.kill()
        (stage.path / "go").touch()
        said = job.communicate(timeout=60)[1]
    if who == "both":
        wait_for(lambda: not runs(command), "the command's end")
        said = stage.call("clean", **bucket.env).stdout
    there = {"early": b"1\n", "unsure": b"2\n"} | ({"late": b"3\n"} if who == "daemon" else {})
    assert bucket.objects("run/") == there, said  # the command ends with its wrapper
    assert "not in" not in said


@pytest.mark.parametrize("status", sampled([403, 503], [403]))
def test_a_killed_job_of_which_nobody_knows_what_is_placed(
    stage: Stage, bucket: TestBucket, status: int
) -> None:
    """The first question that nobody answers is the last one, and all outputs are kept."""
    script = f"for n in 1 2 3; do echo $n > $n; done; {until(stage)}"
    with stage.running(
        *words(stage, "sh", "-c", f"cd {stage.mount}; {script}"), **bucket.env
    ) as job:
        wait_for(lambda: "3" in bucket.objects("run/"), "the outputs")
        bucket.faults = [Fault(OUTPUTS, methods="HEAD|PUT", status=status)]
        os.kill(daemon_of(job.pid), signal.SIGKILL)
        (stage.path / "go").touch()
        said = job.communicate(timeout=60)[1]
    assert re.search(f"not in {OUT}: 1: .*{status}", said), said
    assert {path.name for path in kept_at(stage, said).iterdir()} == {"1", "2", "3"}
    asked = {key for method, key in bucket.writes if method == "HEAD"}
    assert asked == {"run/1"}
    assert set(bucket.objects("run/")) == {"1", "2", "3"}


@pytest.mark.soak
def test_outputs_of_a_killed_job_are_named(stage: Stage, bucket: TestBucket) -> None:
    bucket.faults = [Fault(OUTPUTS, methods="PUT", status=403)]
    script = f"echo 1 > a; touch {stage.path}/there; {until(stage)}"
    with stage.running(
        *words(stage, "sh", "-c", f"cd {stage.mount}; {script}"), **bucket.env
    ) as job:
        wait_for((stage.path / "there").exists, "the output")
        os.kill(daemon_of(job.pid), signal.SIGKILL)
        (stage.path / "go").touch()
        _, said = job.communicate(timeout=60)
    assert f"not in {OUT}: a: {OUT}: the server refused a request (403 Test)" in said
    assert (kept_at(stage, said) / "a").read_text() == "1\n"


@pytest.mark.soak
def test_a_second_interrupt_gives_up(stage: Stage, bucket: TestBucket) -> None:
    bucket.faults = [Fault(OUTPUTS, methods="PUT", status=503)]
    with stage.running(*words(stage, "sh", "-c", f"echo 1 > {stage.mount}/a"), **bucket.env) as job:
        wait_for(lambda: bucket.writes["PUT", "run/a"], "a try to place it")
        job.send_signal(signal.SIGINT)
        assert job.stderr is not None
        said = ""
        while "interrupt again to stop waiting" not in said:
            line = job.stderr.readline()
            assert line, said
            said += line
        job.send_signal(signal.SIGINT)
        said += job.communicate(timeout=60)[1]
    assert f"not in {OUT}: a: " in said
    assert (kept_at(stage, said) / "a").read_text() == "1\n"


@pytest.mark.parametrize(
    ("out", "status", "sentence"),
    [
        ("s3://no-such-bucket/x", 0, "there is no such bucket"),
        (OUT, 403, f"{OUT}: the server refused a request (403 Test); check the credentials"),
        ("gs://bucket/x", 0, "can only be read: write to a directory or to an s3:// address"),
        (f"s3://{BUCKET}/a//b", 0, "has an empty part"),
    ],
)
def test_what_cannot_take_outputs_is_refused_at_once(
    stage: Stage, bucket: TestBucket, out: str, status: int, sentence: str
) -> None:
    bucket.faults = [Fault("run/.*", methods="POST", status=status)] if status else []
    done = run(stage, bucket, f"touch {stage.path}/begun", out=out, code=125)
    assert sentence in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not (stage.path / "begun").exists()
    assert stage.leftovers() == []


NO_CONDITIONS = {
    "ignored": Fault("run/.*", methods="PUT", without="if-match"),
    "501": Fault("run/.*", methods="PUT", status=501),
}


@pytest.mark.parametrize("kind", sampled(NO_CONDITIONS, ["ignored"]))
def test_a_server_without_conditions_is_refused_at_once(
    stage: Stage, bucket: TestBucket, kind: str
) -> None:
    bucket.faults = [NO_CONDITIONS[kind]]
    done = run(stage, bucket, f"touch {stage.path}/begun", code=125)
    assert f"{OUT}: the server has no conditional writes (If-Match)" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert bucket.writes["PUT", "run/.fanstore-trial"] == 1
    assert bucket.objects() == {}
    assert not (stage.path / "begun").exists()


@pytest.mark.soak
def test_who_may_only_write_writes(stage: Stage, bucket: TestBucket) -> None:
    bucket.faults = [Fault("run/[.]fanstore-trial", methods="PUT", status=403)]
    run(stage, bucket, "echo 1 > a")
    assert bucket.objects("run/") == {"a": b"1\n"}


def test_credentials_stay_where_they_are(stage: Stage, bucket: TestBucket) -> None:
    bucket.faults = [Fault("run/b", methods="PUT", status=403)]
    profile = stage.path / "profile"
    profile.write_text(
        f"[default]\naws_access_key_id = key-of-the-tests\naws_secret_access_key = {SECRET}\n"
    )
    env = {**bucket.env, "AWS_SHARED_CREDENTIALS_FILE": str(profile)}
    del env["AWS_SECRET_ACCESS_KEY"], env["AWS_ACCESS_KEY_ID"]
    look = f"grep -rlE 'secret-of|key-of' {stage.local} /proc/self/environ"
    script = f"cd {stage.mount}; echo 1 > a; echo 2 > b; sleep 1; {look}; true"
    report = ("--report", str(stage.path / "report"))
    argv = words(stage, "sh", "-c", script)
    done = stage.call(argv[0], *report, *argv[1:], code=125, **env)
    assert done.stdout == ""
    assert "secret-of" not in done.stderr and "key-of" not in done.stderr
    assert bucket.objects("run/") == {"a": b"1\n"}
    profile.unlink()
    for path in stage.path.rglob("*"):
        content = path.read_bytes() if path.is_file() else b""
        assert b"secret-of" not in content and b"key-of" not in content, path


@needs_ranks
def test_two_ranks(tmp_path: Path, bucket: TestBucket) -> None:
    """One of them goes on with a file that the other one made and had placed."""
    stage = make_rank_stage(tmp_path)
    source = stage.source(files={"input": b"input"})
    options = ["--local-dir", str(stage.path / "r{rank}"), "--mount", str(stage.path / "m{rank}")]
    argv = [sys.executable, "-m", "fanstore", "run", str(source), *options, "--output-dir", OUT]
    go = shlex.quote(str(stage.path / "go"))
    script = (
        'cd "$0"; echo $FANSTORE_RANK > of-$FANSTORE_RANK; if [ $FANSTORE_RANK = 0 ]; then '
        f"echo one > log; else until [ -e {go} ]; do sleep 0.05; done; echo two >> log; fi"
    )
    with stage.launched(
        stage.mpiexec(2, *argv, "--", "sh", "-c", script, "{}"), **bucket.env
    ) as job:
        wait_for(lambda: "log" in bucket.objects("run/"), "the first version")
        (stage.path / "go").touch()
        assert job.wait(timeout=60) == 0
    assert bucket.objects("run/") == {"of-0": b"0\n", "of-1": b"1\n", "log": b"one\ntwo\n"}
