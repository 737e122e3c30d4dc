"""The recipe of the conda package says what the wheel says."""

from __future__ import annotations

import re
from importlib.metadata import requires
from pathlib import Path

import fanstore

RECIPE = Path(__file__).resolve().parents[2] / "tools" / "conda" / "recipe.yaml"
# What conda-forge calls otherwise than PyPI.
NAMES = {"prometheus-client": "prometheus_client", "xxhash": "python-xxhash"}


def test_the_version_is_that_of_the_package() -> None:
    assert f'\n  version: "{fanstore.__version__}"\n' in RECIPE.read_text()


def test_it_asks_for_what_the_wheel_asks_for() -> None:
    needed = [each for each in requires("fanstore-fs") or () if "extra ==" not in each]
    assert len(needed) > 5
    lines = {line.strip() for line in RECIPE.read_text().splitlines()}
    for each in needed:
        found = re.match(r"([a-z0-9-]+)(>=[0-9.]+)", each)
        assert found is not None, each
        assert f"- {NAMES.get(found[1], found[1])} {found[2]}" in lines
