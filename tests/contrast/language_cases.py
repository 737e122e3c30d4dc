"""Programs in other languages: each walks, stats, reads, maps, writes, renames and lists. Static ones,
as busybox may be, have tests of their own.
"""

# ruff: noqa: E501 (a command stays on one line)

from __future__ import annotations

import shlex

from harness import Case
from programs import CLIENTS


def client(name: str) -> str:
    """A client's path, for a shell."""
    return shlex.quote(str(CLIENTS / name))


AWK = """
awk '{ total += $1 } END { print NR, total }' "$R/numbers"
awk 'BEGIN { while ((getline line < (ENVIRON["R"] "/lines")) > 0) n++; print n, line; print "text" > "f"; close("f"); "cat f" | getline got; print got }'
awk '{ print FNR, $0 > "g" }' "$R/small" "$R/x"; cat g
"""
DASH = """
cd "$R"; for each in sub/* *.bin; do [ -f "$each" ] && echo "$each $(wc -c < "$each")"; done
while read -r line; do count=$((count + 1)); done < lines; echo $count
read -r first < small; echo "$first"; [ -x programs/script ] && ./programs/script a b
cd "$D"; echo text > f; echo more >> f; exec 3< f; read -r a <&3; read -r b <&3; echo "$a $b"; mkdir -p a/b; mv f a/b/g; ls a/b; cat < a/b/g; echo *; (cd a; pwd | sed 's|.*/||'); umask 077; : > h; ls -l h | cut -c1-10
"""
NODE = """node -e '
const fs = require("fs/promises"), path = process.env.R + "/small";
(async () => {
    console.log(String(await fs.readFile(path)), (await fs.stat(path)).size);
    const file = await fs.open(path), left = Buffer.alloc(4);
    console.log(await file.read(left, 0, 4, 1), String(left));
    await fs.writeFile(process.env.D + "/made", "by node");
    console.log(String(await fs.readFile(process.env.D + "/made")));
})()' """
LANGUAGES = (
    Case("dash", DASH, shell="dash", needs=("dash",)),
    Case("bash", DASH),
    Case("awk", 'cd "$D"\n' + AWK, needs=("awk",)),
    Case("perl", f"perl {client('lang_walk.pl')}", needs=("perl",)),
    Case("node", f"node {client('lang_walk.mjs')}", needs=("node",)),
    Case("node_io_uring", f"UV_USE_IO_URING=1 {NODE}", needs=("node",)),
    Case("rust", '"$LIBRARIES/lang_walk"', needs=("rustc",)),
    Case("java", 'java -Xshare:auto -XX:TieredStopAtLevel=1 -cp "$LIBRARIES" Walk', needs=("javac", "java")),
)  # fmt: skip
