"""Runs an analysis and writes its report as JSON, also if the analysis is interrupted."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

from fanstore.atomic import Ended, ending_on_signals, whole_file
from fanstore.errors import FanstoreError
from fanstore.exit_codes import SIGNALLED
from fanstore.report.places import make_folder, remove_empty
from fanstore.study.analyze.analysis import JSON_NAME, Analysis
from fanstore.study.analyze.phase import AnalysisRequest
from fanstore.study.analyze.run import Analyzer
from fanstore.study.analyze.verdict import cold, lines


def write_report(analysis: Analysis, out: Path) -> Path:
    """Writes the report to a directory. Returns its path. Raises OSError."""
    found = cold(analysis)
    told = {
        **analysis.as_dict(),
        "verdict": list(lines(analysis)),
        "without_cache": None if found is None else asdict(found),
    }
    text = json.dumps(told, indent=1) + "\n"
    with whole_file(out / JSON_NAME, force=True) as stream:
        stream.write(text.encode("utf-8", "backslashreplace"))
    return out / JSON_NAME


def analyse(request: AnalysisRequest, out: Path, quiet: bool, say: Callable[[str], None]) -> int:
    """Runs an analysis, writes its report to a directory, and passes lines about the result to
    `say`. Returns the exit code. Raises FanstoreError if nothing was measured."""

    def tell(text: str) -> None:
        if not quiet:
            print(f"fanstore: {text}", file=sys.stderr, flush=True)

    made = make_folder(out)
    analyzer = Analyzer(request, out, tell)
    code, problem = 0, ""
    with ending_on_signals() as ending:
        try:
            analyzer.run()
        except Ended as ended:
            code, problem = SIGNALLED + ended.number, "it was interrupted"
        except FanstoreError as error:
            if not analyzer.analysis.rates:
                remove_empty(made)
                raise  # an earlier report is not replaced
            code, problem = error.exit_code, str(error)
        ending.ignore()
        analysis = analyzer.analysis
        if request.ingest is not None:
            analysis = analysis.with_rate("ingest", request.ingest)
        if problem:
            analysis = replace(analysis, notes=(*analysis.notes, f"broken off: {problem}"))
        written = write_report(analysis, out)
    for line in lines(analysis):
        say(line)
    for doubt in analysis.notes:
        say(f"note: {doubt}")
    tell(f"report: {written}")
    return code
