"""The methods of torch that FanStore wraps do what they did, and nothing of FanStore runs in them
once the process allows itself few system calls (seccomp). An audit hook of the process (PEP 578)
hears of no event of FanStore's."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
from serving import make_stage
from soak import sampled

TORCH = {
    "__init__.py": "",
    "utils/__init__.py": "",
    "utils/data/__init__.py": "from types import SimpleNamespace\n"
    "class Fetcher:\n"
    "    dataset, auto_collation = [], True\n"
    "    def fetch(self, possibly_batched_index): return possibly_batched_index\n"
    "class Stream(Fetcher): pass\n"
    "fetchers = {'_MapDatasetFetcher': Fetcher, '_IterableDatasetFetcher': Stream}\n"
    "_utils = SimpleNamespace(fetch=SimpleNamespace(**fetchers))\n",
    "utils/data/dataloader.py": "class _BaseDataLoaderIter:\n"
    "    def __init__(self, loader): self.workers = loader.num_workers\n"
    "    def _next_index(self): return [0]\n"
    "class _MultiProcessingDataLoaderIter(_BaseDataLoaderIter): pass\n",
}
# A filter that ends the process for socket(2): by architecture, the number of that call.
JOB = """
import ctypes, os, platform, re, struct, sys
from types import SimpleNamespace

def audit():
    def hook(event, arguments):
        ours = re.search("jobs/[^/]*/in_job/", str(arguments))
        if event in ("compile", "object.__getattr__"):  # FanStore compiles its code, and this fails
            return
        if ours or event.startswith(("socket.", "fcntl.", "gc.")):
            os._exit(9)
    sys.addaudithook(hook)

if sys.argv[1:] == ["early"]:
    audit()
import torch.utils.data.dataloader as dataloader
import json.tool  # the next import: it begins to look

SOCKET = {"x86_64": 41, "aarch64": 198}[platform.machine()]
LOAD_NUMBER, JUMP_IF_SAME, RETURN, KILL, ALLOW = 0x20, 0x15, 0x06, 0x80000000, 0x7FFF0000
steps = [(LOAD_NUMBER, 0, 0, 0), (JUMP_IF_SAME, 0, 1, SOCKET), (RETURN, 0, 0, KILL),
         (RETURN, 0, 0, ALLOW)]
code = b"".join(struct.pack("HBBI", *step) for step in steps)
kept = ctypes.create_string_buffer(code)
program = struct.pack("HxxxxxxP", len(steps), ctypes.addressof(kept))
prctl = ctypes.CDLL(None).prctl
filtered = sys.argv[1:] == ["filtered"]
if prctl(38, 1, 0, 0, 0) or (filtered and prctl(22, 2, ctypes.c_char_p(program), 0, 0)):
    sys.exit(77)
if sys.argv[1:] == ["late"]:
    audit()
loader = SimpleNamespace(num_workers=2, prefetch_factor=2, in_order=True, _dataset_kind=0)
iterator = dataloader._BaseDataLoaderIter(loader)
watched = type(vars(dataloader._BaseDataLoaderIter)["_next_index"]).__name__ == "instancemethod"
print(watched, iterator._next_index())
fetcher = sys.modules["torch.utils.data"]._utils.fetch._MapDatasetFetcher()
print(fetcher.fetch([1]), fetcher.fetch(possibly_batched_index=[2]))
try:
    dataloader._BaseDataLoaderIter(None)
except AttributeError as error:
    print(error)
"""


SAID = "True [0]\n[1] [2]\n'NoneType' object has no attribute 'num_workers'\n"


def run_job(tmp_path: Path, code: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Runs a program with what stands for torch in a job."""
    stage = make_stage(tmp_path)
    for name, text in TORCH.items():
        path = tmp_path / "packages" / "torch" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    served = ("run", "--dataset", str(stage.dataset()), "--mount", str(stage.mount), "--")
    return subprocess.run(
        [sys.executable, "-m", "fanstore", *served, sys.executable, "-c", code, *words],
        env={**stage.env, "PYTHONPATH": str(tmp_path / "packages")},
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip


@pytest.mark.parametrize(
    "how", sampled(["free", "filtered", "early", "late"], ["filtered", "late"])
)
def test_a_loader_after_a_filter_or_an_audit_hook(tmp_path: Path, how: str) -> None:
    done = run_job(tmp_path, JOB, how)
    if done.returncode == 77:
        pytest.skip("no filters here")
    assert (done.returncode, done.stdout) == (0, SAID), done.stderr


SUBINTERPRETERS = """
import sys
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
CODE = '''
import sys
import torch.utils.data.dataloader as dataloader
import json.tool  # the next import: it begins to look
from types import SimpleNamespace
loader = SimpleNamespace(num_workers=2, prefetch_factor=2, in_order=True, _dataset_kind=0)
assert dataloader._BaseDataLoaderIter(loader)._next_index() == [0]
'''
def run():
    for _ in range(3):
        one = interpreters.create()
        print(interpreters.run_string(one, f"import sys; sys.path = {sys.path!r}\\n" + CODE))
        interpreters.destroy(one)
if sys.argv[1] == "before":
    run()
exec(CODE)
run()
"""


@pytest.mark.parametrize("when", sampled(["before", "after"], ["before"]))
def test_loaders_in_other_interpreters_of_a_process(tmp_path: Path, when: str) -> None:
    if not any(map(importlib.util.find_spec, ("_interpreters", "_xxsubinterpreters"))):
        pytest.skip("no subinterpreters here")
    done = run_job(tmp_path, SUBINTERPRETERS, when)
    runs = 6 if when == "before" else 3
    assert (done.returncode, done.stdout) == (0, "None\n" * runs), done.stderr
    assert "Traceback" not in done.stderr
