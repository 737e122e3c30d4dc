"""Draws the screen of `fanstore top`, with the meaning of its columns, as an SVG file.

    python tools/top_picture.py docs/images/top.svg LOCAL_DIR

LOCAL_DIR is the local directory of the job. The picture in docs/monitoring.md shows a job of two
ranks on one machine that read 800 files of 60 kB in random order from a slow shared file system:

    python tools/slow/slow.py SHARED SLOW --latency 2ms --stream 20M --total 1:30M,8:60M -- \\
        mpiexec -n 2 fanstore run --dataset SLOW/data.fan --local-dir '/tmp/nodes/{rank}' \\
        --mount '/tmp/seen/{rank}' --stage plan --local-bytes 15M --cache-bytes 10M -- PROGRAM
"""

from __future__ import annotations

import io
import re
import sys
import time
from pathlib import Path

from rich.console import Console

from fanstore.cli.jobs.job_options import chosen_job
from fanstore.cli.jobs.top import Look
from fanstore.cli.jobs.top_table import heading, legend, lines_of, table_of
from fanstore.watch.rates import in_order

COLUMNS, INTERVAL_S = 86, 2.0
# rich's picture would load a font from another site.
FONTS = re.compile(r"@font-face {.*?}\s*", re.DOTALL)


def main() -> None:
    look = Look(chosen_job(None, sys.argv[2], any_rank=True), this_rank=False)
    time.sleep(INTERVAL_S)
    rows = in_order(look.rates(), "stall")
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), color_system="truecolor")
    console.print(heading(look.job.job_id, rows), table_of(lines_of(rows, programs=True)))
    console.print("", legend())
    picture = FONTS.sub("", console.export_svg(title="fanstore top"))
    Path(sys.argv[1]).write_text(re.sub(r" +$", "", picture, flags=re.MULTILINE))


if __name__ == "__main__":
    main()
