"""Outputs where the mount lies over the dataset's own original, and of another user than root."""

from __future__ import annotations

import subprocess

import pytest
from arena import SELF, fanstore_command
from case_set import Set
from output_sets import DENIED, OVER, label, parameters, set_label, whole_sets, with_one_kind
from recorded import Recordings, check, check_staged

QUICK = with_one_kind([OVER[0], DENIED[0], DENIED[1]])


@pytest.mark.parametrize("case", parameters(OVER + DENIED, QUICK), ids=label)
def test_case(recordings: Recordings, case: tuple[Set, str, str]) -> None:
    check(recordings, *case)


@pytest.mark.parametrize("group", whole_sets(OVER + DENIED, QUICK), ids=set_label)
def test_all_is_in_the_output_directory(recordings: Recordings, group: Set) -> None:
    check_staged(recordings, group)


@pytest.mark.skipif(SELF, reason="there is no FanStore to look at")
def test_the_original_is_untouched(recordings: Recordings) -> None:
    for group in OVER:
        recordings.seen(group, *group.parameters()[0])
    assert recordings.original_is_untouched()


BETWEEN_MOUNTS = """
cd "$1/text" && echo one > f && mkdir d && mv f "$2/text/g" && cat "$2/text/g" && ls
python3 - "$1/text" "$2/text" <<X
import errno, os, sys
one, two = sys.argv[1:]
for call in (os.rename, os.link):
    try:
        call(f"{two}/g", f"{one}/f")
    except OSError as error:
        print(call.__name__, errno.errorcode[error.errno])
X
ln -s "$2/text/g" link && cat link && echo more >> link && cat "$2/text/g"
ln -s "$1/text" "$2/to_one" && echo by a link > "$2/to_one/d/h" && cat d/h
"""


@pytest.mark.skipif(SELF, reason="there is no FanStore to look at")
def test_two_mounts_of_one_job(recordings: Recordings) -> None:
    """Renames and hard links between them are EXDEV, links lead across, each is staged out."""
    base = recordings.base / "two"
    one, two, out = base / "one", base / "two", base / "out"
    base.mkdir()
    served = ["--dataset", recordings.dataset(), "--mount", one]
    served += ["--dataset", recordings.dataset(), "--mount", two]
    places = ["--local-dir", base, "--output-dir", out]
    command = ["bash", "-c", BETWEEN_MOUNTS, "bash", one, two]
    done = subprocess.run(
        [*fanstore_command(), "run", "--quiet", *served, *places, "--", *command],
        capture_output=True,
        timeout=120,
        check=False,
    )
    # Other cases write to the tree that the dataset was packed from.
    told = [n for n in done.stderr.splitlines() if b"has changed since it was packed" not in n]
    assert (done.returncode, told) == (0, [])
    said = b"one\nd\nhello.txt\nsub\nx\nrename EXDEV\nlink EXDEV\none\none\nmore\nby a link\n"
    assert done.stdout == said
    assert (out / "two/text/g").read_text() == "one\nmore\n"
    assert (out / "one/text/d/h").read_text() == "by a link\n"
    assert not (out / "one/text/f").exists()
