"""All published files name the same version, license and summary. The workflow and the commit
hooks run the project's own checks."""

from __future__ import annotations

import re
from importlib.metadata import metadata, requires
from pathlib import Path
from typing import Any

import yaml

import fanstore

ROOT = Path(__file__).resolve().parents[2]
RECIPE = ROOT / "tools" / "conda" / "recipe.yaml"
# Packages that have another name on conda-forge than on PyPI.
NAMES = {"prometheus-client": "prometheus_client", "xxhash": "python-xxhash"}


def read(*parts: str) -> Any:
    return yaml.safe_load(ROOT.joinpath(*parts).read_text())


def test_every_place_names_the_version_of_the_package() -> None:
    version = fanstore.__version__
    assert metadata("fanstore-fs")["Version"] == version
    assert read("tools", "conda", "recipe.yaml")["context"]["version"] == version
    assert read("CITATION.cff")["version"] == version
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest and newest[1] == version


def test_a_citation_says_what_the_package_says() -> None:
    said, package = read("CITATION.cff"), metadata("fanstore-fs")
    assert said["cff-version"] == "1.2.0"
    assert said["abstract"] == f"{package['Summary']}."
    assert said["license"] == package["License-Expression"]
    assert said["authors"] == [{"name": package["Author"]}]
    assert {"message", "title"} <= said.keys()
    for reference in said["references"]:
        assert {"type", "title", "authors"} <= reference.keys()


def test_conda_asks_for_what_the_wheel_asks_for() -> None:
    needed = [each for each in requires("fanstore-fs") or () if "extra ==" not in each]
    assert len(needed) > 5
    lines = {line.strip() for line in RECIPE.read_text().splitlines()}
    for each in needed:
        found = re.match(r"([a-z0-9-]+)(>=[0-9.]+)", each)
        assert found is not None, each
        assert f"- {NAMES.get(found[1], found[1])} {found[2]}" in lines


def test_the_workflow_runs_what_every_change_must_pass() -> None:
    workflow = read(".github", "workflows", "ci.yml")
    jobs = {
        name: [step.get("run") for step in job["steps"]] for name, job in workflow["jobs"].items()
    }
    assert ".ci/run" in jobs["test"] and "make release" in jobs["release"]
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o100
    matrix = workflow["jobs"]["test"]["strategy"]["matrix"]
    assert matrix["runner"] == ["ubuntu-24.04", "ubuntu-24.04-arm"]
    package = metadata("fanstore-fs")
    known = re.findall(r":: (3\.\d+)$", "\n".join(package.get_all("Classifier")), re.MULTILINE)
    assert matrix["python"] == [known[0], known[-1]]
    assert package["Requires-Python"] == f">={known[0]}"


def test_the_workflow_has_no_rights_and_no_secrets() -> None:
    assert read(".github", "workflows", "ci.yml")["permissions"] == {"contents": "read"}
    assert "secrets" not in (ROOT / ".github" / "workflows" / "ci.yml").read_text()


def test_hooks_are_commands_of_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text().splitlines()
    commands = {line.strip(" \t@").replace("$(BIN)", ".venv/bin") for line in makefile}
    (repository,) = read(".pre-commit-config.yaml")["repos"]
    assert repository["repo"] == "local"
    for hook in repository["hooks"]:
        assert hook["entry"] in commands and hook["language"] == "system"
