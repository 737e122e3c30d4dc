"""The site of the documentation is built without a warning, and loads nothing from elsewhere."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from fanstore import config
from fanstore.cli import cli
from fanstore.watch.metrics import FAMILIES

ROOT = Path(__file__).resolve().parents[2]
MISSING = [name for name in ("griffe", "zensical") if importlib.util.find_spec(name) is None]
pytestmark = pytest.mark.skipif(
    bool(MISSING), reason=f"the extra `docs` is not installed: no {', '.join(MISSING)}"
)
# Whatever makes a browser load something: links in the text do not.
LOADS = re.compile(r"""(?ix)
    <(?:script|img|iframe|source|video|audio|embed)\b [^>]* \bsrc=["']?(?P<src>[^"'\s>]+)
    | <link\b (?=[^>]* \brel=["']?(?:stylesheet|preload|preconnect|icon|modulepreload))
      [^>]* \bhref=["']?(?P<href>[^"'\s>]+)
    | url\(["']?(?P<url>[^"')]+) | @import\s+["'](?P<imported>[^"']+)""")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    work = tmp_path_factory.mktemp("docs")
    command = [sys.executable, ROOT / "tools" / "docs.py", work]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return work / "site"


def test_the_site_loads_nothing_from_other_places(site: Path) -> None:
    loaded = 0
    for path in [*site.rglob("*.html"), *site.rglob("*.css"), *site.rglob("*.svg")]:
        for found in LOADS.finditer(path.read_text()):
            target = next(part for part in found.groups() if part)
            assert not re.match(r"(?:https?:)?//", target), f"{path}: {found[0]}"
            loaded += 1
    assert loaded > 100


def test_the_site_has_every_page_in_its_search(site: Path) -> None:
    pages = {str(path.relative_to(site)) for path in site.rglob("*.html")} - {"404.html"}
    items = json.loads((site / "search.json").read_text())["items"]
    assert {item["location"].partition("#")[0] for item in items} == pages
    assert (site / "search.js").read_text().startswith("var __index")


def test_generated_pages_have_what_is_in_the_code(site: Path) -> None:
    commands = (site / "commands.html").read_text()
    for name, _, _ in cli.leaves():
        assert f'id="{name.replace(" ", "-")}"' in commands
    settings = (site / "settings.html").read_text()
    assert all(f"<code>{each.name}</code>" in settings for each in config.SETTINGS)
    assert "<code>copy_file_range</code>" in (site / "posix.html").read_text()
    metrics = (site / "metrics.html").read_text()
    assert all(f"<code>{each.full_name}</code>" in metrics for each in FAMILIES)
    api = (site / "python-api.html").read_text()
    assert 'id="datasetread"' in api and 'id="workerbalance"' in api
