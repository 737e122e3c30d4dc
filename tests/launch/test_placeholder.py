"""{} in a command: where it is the mount prefix, and where it is the command's own text."""

from __future__ import annotations

from pathlib import Path

import pytest
from serving import Stage, make_stage

from fanstore.launch.placeholder import with_prefix


@pytest.mark.parametrize(
    ("word", "filled"),
    [
        ("{}", "/a b"),
        ("{}/train", "/a b/train"),
        ("{}/", "/a b/"),
        ("{}/two\nlines {}", "/a b/two\nlines {}"),
        ("--data={}", "--data=/a b"),
        ("--data={}/train", "--data=/a b/train"),
        ("data.path={}/x=y", "data.path=/a b/x=y"),
        ("={}", "=/a b"),
    ],
)
def test_the_prefix_takes_its_place(word: str, filled: str) -> None:
    assert with_prefix(["first", word], "/a b") == ["first", filled]


@pytest.mark.parametrize(
    "word",
    [
        "", "{", "{0}", "{x}", "a{}", "{}a", "{}{}", "{}.txt", "{}:{}", "-I{}", "x = {}", "x= {}",
        "print({})", "if x: y={}", "a=b={}", "--data={}x", "/{}", "./{}/x", " {}", "{} ", "{}\n",
    ],
)  # fmt: skip
def test_other_text_stays(word: str) -> None:
    assert with_prefix([word], "/a b") == [word]


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return make_stage(tmp_path)


def test_run_and_exec_name_the_first_mount(stage: Stage) -> None:
    one, two = stage.dataset(), stage.dataset(stage.source("p2", {"x": b"2"}), "two")
    where = ["--dataset", str(one), "--mount", str(stage.mount), "--dataset", str(two)]
    where += ["--mount", str(stage.path / "mount2")]
    shown = [
        "--",
        "sh",
        "-c",
        'printf "%s\n" "$@"; cat "$1"/f00',
        "{}",
        "{}",
        "--data={}/f",
        "({})",
    ]
    said = f"{stage.mount}\n--data={stage.mount}/f\n({{}})\n" + "\0" * 1000
    assert stage.call("run", *where, "--quiet", *shown).stdout == said
    stage.call("start", *where)
    try:
        assert stage.call("exec", *shown).stdout == said
    finally:
        stage.call("stop")
