"""Whether the preload library comes into programs, and what those without it are told."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from serving import LIMIT_S, Stage, make_stage, wait_for

RUN_COPY = "import sys; sys.path.insert(0, sys.argv.pop(1)); import fanstore.cli as c; c.main()"
NOTE = "SERVED-BY-FANSTORE.txt"


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return make_stage(tmp_path)


@pytest.fixture(scope="module")
def static_cat(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A static program: cat FILE, or without one the names in the current directory."""
    folder = tmp_path_factory.mktemp("static")
    (folder / "cat.c").write_text(
        "#include <dirent.h>\n#include <stdio.h>\n"
        "int main(int argc, char **argv) { char piece[4096]; size_t got;\n"
        '  if (argc < 2) { DIR *d = opendir("."); struct dirent *e;\n'
        "    while (d && (e = readdir(d))) puts(e->d_name); return !d; }\n"
        '  FILE *f = fopen(argv[1], "r"); if (!f) return 2;\n'
        "  while ((got = fread(piece, 1, 4096, f)) > 0) fwrite(piece, 1, got, stdout);\n"
        "  return 0; }\n"
    )
    program = folder / "cat"
    built = subprocess.run(["cc", "-static", "-w", "-o", str(program), str(folder / "cat.c")],
                           capture_output=True, check=False)  # fmt: skip
    if built.returncode != 0:
        pytest.skip("no static programs can be built here")
    return program


def installed(stage: Stage, name: str) -> Path:
    """A second installation, below a directory `name`."""
    from fanstore import _native

    package = stage.path / name / "fanstore"
    shutil.copytree(Path(_native.__file__).parent.parent, package)
    return package


def run_installed(
    package: Path, stage: Stage, dataset: Path, *command: str, before: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    """`fanstore run` of another installation."""
    where = ("--dataset", str(dataset), "--mount", str(stage.mount))
    own = (sys.executable, "-c", RUN_COPY, str(package.parent), "run", *where, "--", *command)
    return subprocess.run(
        [*before, *own], env=stage.env, cwd=stage.path, capture_output=True, text=True,
        timeout=LIMIT_S, check=False,
    )  # fmt: skip


def test_a_library_that_cannot_be_loaded_is_refused(stage: Stage) -> None:
    dataset = stage.dataset()
    package = installed(stage, "other")
    (package / "_native" / "libfanstore_preload.so").write_bytes(b"no library at all")
    done = run_installed(package, stage, dataset, "sh", "-c", f"ls {stage.mount}; echo ran")
    assert (done.returncode, done.stdout) == (125, ""), done.stderr
    assert "libfanstore_preload.so is not loaded by programs here (" in done.stderr
    assert "use --trap" in done.stderr and "Traceback" not in done.stderr
    assert stage.leftovers() == []


def test_exec_refuses_it_too(stage: Stage) -> None:
    """At once, whatever --wait says: the job is there."""
    dataset = stage.dataset()
    where = ("--dataset", str(dataset), "--mount", str(stage.mount))
    stage.call("start", *where)
    segment = next(stage.local.glob("*/jobs/*/segment"))
    with segment.open("r+b") as stream:
        stream.seek(8)
        stream.write(b"\xff")  # another version: the library finds no job
    try:
        done = stage.call("exec", "--wait", "600", "--", "true", code=125)
        assert "is not loaded by programs here" in done.stderr
    finally:
        stage.call("stop")


def test_a_space_in_the_path_and_a_disk_that_runs_nothing(stage: Stage) -> None:
    package = installed(stage, "with space")
    noexec = ("unshare", "--mount", "sh", "-c",
              f'mount -t tmpfs -o noexec none "{stage.local}" && exec "$@"', "-")  # fmt: skip
    if subprocess.run([*noexec, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("mounting takes root, and a machine that lets it")
    done = run_installed(
        package, stage, stage.dataset(), "cat", f"{stage.mount}/f01", before=noexec
    )
    assert (done.returncode, done.stdout) == (0, "\1" * 1001), done.stderr


ENTER = """
root=$1; shift
mount -t tmpfs none $root
for d in /usr /dev /proc /etc; do mkdir -p $root$d; mount --rbind $d $root$d; done
for l in bin sbin lib lib64; do
    if [ -L /$l ]; then cp -a /$l $root/$l; else mkdir $root/$l; mount --bind /$l $root/$l; fi
done
while [ "$1" != -- ]; do mkdir -p "$root$1"; mount --bind "$1" "$root$1"; shift; done
shift
exec chroot $root "$@"
"""


def test_a_container_has_to_show_the_library_and_the_job(stage: Stage) -> None:
    """As container runtimes do it: another root, with what is shown bound into it."""
    root = stage.path / "root"
    root.mkdir()
    (stage.path / "enter").write_text(ENTER)
    enter = f"sh {stage.path}/enter {root}"
    if subprocess.run(["unshare", "-m", *enter.split(), "--", "true"], check=False,
                      capture_output=True).returncode != 0:  # fmt: skip
        pytest.skip("another root takes the right to mount, and programs in /usr")
    dataset = stage.dataset()
    read = f"-- sh -c 'cat {stage.mount}/f01 | wc -c; echo own >{stage.mount}/own'"
    options = ("--output-dir", str(stage.path / "out"))
    library = '"$(dirname "$(realpath "$LD_PRELOAD")")"'  # a link, where its path has a space
    shown = f'{enter} {library} "$FANSTORE_JOB_DIR/../.." {read}'
    done = stage.run(dataset, "unshare", "-m", "sh", "-c", shown, options=options)
    assert done.stdout == "1001\n" and hints(done.stderr) == []
    assert (stage.path / "out" / "own").read_text() == "own\n"
    done = stage.run(dataset, "unshare", "-m", "sh", "-c", f"{enter} {read}", code=2)
    assert done.stdout == "0\n" and "read nothing from" in hints(done.stderr)[0]
    trapped = f"{enter} -- cat {stage.mount}/f01 | wc -c"
    done = stage.run(dataset, "unshare", "-m", "sh", "-c", trapped, options=("--trap",))
    assert done.stdout == "1001\n"


def hints(stderr: str) -> list[str]:
    return [line for line in stderr.splitlines() if "hint:" in line]


def test_a_command_that_opened_nothing_is_told_so(stage: Stage, static_cat: Path) -> None:
    dataset = stage.dataset()
    assert "read nothing from" in hints(stage.run(dataset, "true").stderr)[0]
    assert hints(stage.run(dataset, "test", "-e", f"{stage.mount}/none", code=1).stderr) == []
    hidden = stage.run(dataset, str(static_cat), f"{stage.mount}/f01", code=2)
    assert "no program of the command loaded the library" in hints(hidden.stderr)[0]


def test_a_command_that_wrote_but_read_past_the_mount_is_told_so(stage: Stage) -> None:
    """A link to a directory that is mounted over itself leads to the originals."""
    source = stage.source()
    (stage.path / "link").symlink_to(source)
    where = (str(source), "--output-dir", str(stage.path / "out"))
    for path, told in ((stage.path / "link", True), (source, False)):
        script = f"mkdir -p {source}/new; cat {path}/f01 >{source}/new/copy"
        done = stage.call("run", *where, "--", "sh", "-c", script)
        assert (stage.path / "out/new/copy").read_bytes() == stage.files["f01"]
        assert len(hints(done.stderr)) == told
        assert (f"hint: the command read nothing from {source}: " in done.stderr) == told


def test_only_programs_without_the_library_see_the_note(stage: Stage, static_cat: Path) -> None:
    dataset = stage.dataset()
    script = (
        f"cd {stage.mount}; {static_cat}; {static_cat} {NOTE} | head -1; ls -a; cat {NOTE}; "
        f"test -e {NOTE} || echo none; echo own >{NOTE} && cat {NOTE}"
    )
    options = ("--output-dir", str(stage.path / "out"))
    done = stage.run(dataset, "bash", "-c", script, options=options)
    shown = done.stdout.splitlines()
    assert sorted(shown[:3]) == [".", "..", NOTE] and shown[3].startswith("This directory is")
    assert shown[4:-2] == [".", "..", *(f"f{n:02}" for n in range(20))]
    assert shown[-2:] == ["none", "own"]
    assert (stage.path / "out" / NOTE).read_text() == "own\n"
    assert "left in the mount prefix" not in done.stderr
    assert stage.leftovers() == []


def test_a_note_that_somebody_changed_stays(stage: Stage) -> None:
    ready, go = stage.path / "ready", stage.path / "go"
    script = f"touch {ready}; until test -e {go}; do sleep 0.1; done"
    where = ("--dataset", str(stage.dataset()), "--mount", str(stage.mount))
    with stage.running("run", *where, "--", "sh", "-c", script) as run:
        wait_for(ready.exists, "the command")
        (stage.mount / NOTE).unlink()
        (stage.mount / NOTE).write_text("not ours")
        go.touch()
        _, stderr = run.communicate(timeout=60)
    assert f"left in the mount prefix, not FanStore's: {stage.mount}/{NOTE}" in stderr
    assert (stage.mount / NOTE).read_text() == "not ours"
