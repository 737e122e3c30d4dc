"""Runs one module of CPython's own tests in this process, in the current directory.

    python cpython_case.py RESULTS MODULE [SKIPPED ...]

RESULTS gets a line of JSON when each test begins and when it ends, so that it shows where a run
died. SKIPPED: ids of tests, with wildcards. Works with any interpreter that has the package `test`,
and needs nothing else."""

from __future__ import annotations

import importlib
import json
import sys
import unittest
from collections.abc import Iterator
from fnmatch import fnmatch
from typing import IO, Any


def name_of(test: unittest.TestCase) -> str:
    """Returns a test's id without the package; for a failed set-up, the id of the class or
    module."""
    return test.id().replace("test.", "", 1)


class Outcomes(unittest.TestResult):
    """Writes the outcome of each test. A subtest's failure is its test's."""

    def __init__(self, sink: IO[str]) -> None:
        super().__init__()
        self._sink = sink
        self._outcome: tuple[str, str] = ("ok", "")

    def _write(self, test: unittest.TestCase, outcome: str, why: str = "") -> None:
        name = name_of(test)
        self._sink.write(json.dumps({"test": name, "outcome": outcome, "why": why}) + "\n")
        self._sink.flush()

    def startTest(self, test: unittest.TestCase) -> None:
        super().startTest(test)
        self._outcome = ("ok", "")
        self._write(test, "begun")

    def stopTest(self, test: unittest.TestCase) -> None:
        super().stopTest(test)
        self._write(test, *self._outcome)

    def _failed(self, test: unittest.TestCase, error: Any) -> None:
        lines = self._exc_info_to_string(error, test)  # type: ignore[attr-defined]
        self._outcome = ("failed", lines)
        if not isinstance(test, unittest.TestCase):  # setUpClass, setUpModule
            self._write(test, *self._outcome)

    def addError(self, test: unittest.TestCase, err: Any) -> None:
        self._failed(test, err)

    def addFailure(self, test: unittest.TestCase, err: Any) -> None:
        self._failed(test, err)

    def addSubTest(self, test: unittest.TestCase, subtest: unittest.TestCase, err: Any) -> None:
        if err is not None:
            self._failed(test, err)

    def addUnexpectedSuccess(self, test: unittest.TestCase) -> None:
        self._outcome = ("failed", "unexpected success")

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        if self._outcome[0] != "failed":
            self._outcome = ("skipped", reason)
        if not isinstance(test, unittest.TestCase):
            self._write(test, "skipped", reason)


def each(suite: Any) -> Iterator[unittest.TestCase]:
    """Yields the tests of a suite."""
    if isinstance(suite, unittest.TestSuite):
        for part in suite:
            yield from each(part)
    else:
        yield suite


def main() -> int:
    results, module, *skipped = sys.argv[1:]
    from test import support

    support.use_resources = []  # like CPython's own runner: nothing large, slow or on a network
    support.verbose = 0
    found = unittest.defaultTestLoader.loadTestsFromModule(
        importlib.import_module("test." + module)
    )
    wanted = [
        test for test in each(found) if not any(fnmatch(name_of(test), name) for name in skipped)
    ]
    with open(results, "w") as sink:
        unittest.TestSuite(wanted).run(Outcomes(sink))
    return 0


if __name__ == "__main__":
    sys.exit(main())
