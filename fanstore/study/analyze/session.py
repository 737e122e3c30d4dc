"""An analysis from its beginning to its report, which is left also where it is broken off."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from fanstore.atomic import Ended, ending_on_signals
from fanstore.errors import FanstoreError
from fanstore.exit_codes import SIGNALLED
from fanstore.report.places import make_folder, remove_empty
from fanstore.study.analyze.gains import best, gains_of
from fanstore.study.analyze.request import Request
from fanstore.study.analyze.run import Analyzer
from fanstore.study.analyze.verdict import cold, doubts, lines
from fanstore.study.analyze.written import write_report


def analyse(request: Request, out: Path, quiet: bool, say: Callable[[str], None]) -> int:
    """Runs an analysis, writes its report to a directory, and says what it found; returns the exit
    code. Raises FanstoreError where nothing was measured."""

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
                raise  # and an earlier report stays
            code, problem = error.exit_code, str(error)
        ending.ignore()
        analysis = analyzer.analysis
        if request.ingest is not None:
            analysis = analysis.with_rate("ingest", request.ingest)
        if problem:
            analysis = replace(analysis, notes=(*analysis.notes, f"broken off: {problem}"))
        gains = [] if cold(analysis) is None else gains_of(analysis)
        written = write_report(analysis, gains, out)
    for line in lines(analysis):
        say(line)
    for gain in best(gains):
        say(f"{gain.times:.2f} times as fast as without cache and prefetch: {gain.setting}")
    for doubt in doubts(analysis):
        say(f"note: {doubt}")
    for path in written:
        tell(f"report: {path}")
    return code
