"""Commands in containers: another root, another C library, made by bubblewrap."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from serving import LIMIT_S, Stage, make_stage

from fanstore._native import preload_path
from fanstore.errors import UsageError
from fanstore.launch.containers import container_of, needed_paths
from fanstore.messages.figures import DatasetFigures
from fanstore.messages.job import JobDescription
from fanstore.programs.check import glibc_needed

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
import container_trial
import debian_root

PACKAGES = ("dash", "coreutils", "perl-base", "libc6")
VERSIONS = {"bullseye": (2, 31), "trixie": (2, 41)}  # of glibc
DATASET = DatasetFigures(
    name="d", directory="/shared/d", dataset_id="", mount_prefix="/nowhere", packs=1, in_place=True,
    replicas=1, remote_packs=0, copied_packs=0, copied_bytes=0, received_packs=0, received_bytes=0,
    reused_packs=0, shared_bytes=0, share_bytes=0, damaged_count=0, damaged_files=(),
)  # fmt: skip
JOB = JobDescription(
    job_id="a1", job_directory="/local/.fanstore-u/jobs/a1", kind="run", rank=0, host="n",
    first_id="a1", metrics="", world_size=1, daemon_pid=1, preload="/opt/f/libfanstore_preload.so",
    started_s=0.0, datasets=[DATASET],
)  # fmt: skip


def test_paths_are_bound_by_what_the_runtime_has_for_that() -> None:
    paths = needed_paths(JOB)
    assert paths == ["/local/.fanstore-u", "/opt/f", "/shared/d"]
    apptainer = container_of("/usr/bin/apptainer exec 'an image.sif'")
    given = {"APPTAINER_BIND": "/scratch", "LD_PRELOAD": "/x.so", "FANSTORE_RANK": "0", "A": "b"}
    outside = apptainer.environ(given, paths)
    assert outside == {
        "A": "b",
        "APPTAINER_BIND": "/scratch,/local/.fanstore-u,/opt/f,/shared/d",
    }
    command = apptainer.command(["python", "t.py"], JOB)
    assert command[:4] == ["/usr/bin/apptainer", "exec", "an image.sif", "env"]
    assert command[-2:] == ["python", "t.py"]
    assert f"LD_PRELOAD={JOB.preload}" in command
    podman = container_of("podman run --rm image").command(["true"], JOB)
    assert podman[:4] == ["podman", "run", "--volume", "/local/.fanstore-u:/local/.fanstore-u"]


@pytest.mark.parametrize("words", ["", "  ", "apptainer 'exec"])
def test_words_that_enter_nothing_are_refused(words: str) -> None:
    with pytest.raises(UsageError, match="--container"):
        container_of(words)


WHY_NOT = container_trial.missing()
needs_container = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)


@pytest.fixture(scope="module", params=["bullseye", "trixie"])
def root(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The root of a Debian: glibc 2.31, or 2.41."""
    if os.uname().machine != "x86_64":
        pytest.skip("the root is x86_64's")
    root = tmp_path_factory.mktemp(request.param) / "root"
    try:
        debian_root.unpack(root, request.param, "amd64", PACKAGES)
    except (subprocess.SubprocessError, SystemExit) as error:
        pytest.skip(f"packages of Debian cannot be had here: {error}")
    container_trial.complete(root)
    return root


def words(root: Path) -> str:
    return f"bwrap --bind '{root}' / --proc /proc --dev /dev"


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return make_stage(tmp_path)


@needs_container
def test_a_program_of_another_root_reads_the_mount_or_hears_why_not(
    stage: Stage, root: Path
) -> None:
    dataset = stage.dataset()
    sums = ["sh", "-c", 'cd "$1" && sha256sum f*', "sh"]
    run = ["run", "--quiet", "--dataset", str(dataset), "--mount", str(stage.mount)]
    mounted = [*run, "--container", words(root), "--", *sums, str(stage.mount)]
    done = subprocess.run(
        [sys.executable, "-m", "fanstore", *mounted],
        env=stage.env, capture_output=True, text=True, timeout=LIMIT_S,
    )  # fmt: skip
    if glibc_needed(os.fspath(preload_path())) > VERSIONS[root.parent.name[:-1]]:
        assert done.returncode == 125
        assert re.search("is not loaded by programs of the container .*GLIBC_2", done.stderr)
        return
    plain = subprocess.run(
        [*sums, str(stage.path / "plain")], capture_output=True, text=True, check=True
    )
    assert done.stdout == plain.stdout, done.stderr
    assert len(plain.stdout.splitlines()) == 20


@needs_container
def test_what_keeps_the_library_out_is_told(stage: Stage, tmp_path: Path) -> None:
    musl = shutil.which("musl-gcc")
    if musl is None:
        pytest.skip("musl-gcc is not installed (Debian: musl-tools)")
    root = tmp_path / "musl"
    for folder in ("bin", "lib", "proc", "dev", "tmp"):
        (root / folder).mkdir(parents=True)
    source = tmp_path / "env.c"
    source.write_text(
        "#include <string.h>\n#include <stdlib.h>\n#include <unistd.h>\n"
        "int main(int n, char **a) {\n"
        "  for (a++; *a && strchr(*a, '='); a++) putenv(*a);\n"
        '  return *a && strcmp(*a, "/bin/sh") ? 9 : execv(*a, a); }\n'
    )
    for name in ("env", "sh"):
        subprocess.run([musl, "-o", root / "bin" / name, source], check=True)
    (root / "lib" / "ld-musl-x86_64.so.1").write_bytes(
        Path("/lib/ld-musl-x86_64.so.1").read_bytes()
    )
    dataset = stage.dataset()
    run = ["run", "--quiet", "--dataset", str(dataset), "--mount", str(stage.mount)]
    done = stage.call(*run, "--container", words(root), "--", "/bin/sh", code=125)
    assert "is not loaded by programs of the container" in done.stderr
    assert "musl" in done.stderr
    assert str(stage.local) in done.stderr
