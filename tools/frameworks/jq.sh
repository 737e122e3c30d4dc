# does: read and write JSON
# version: jq --version
jq -c .x "$1/files/a.json" | tee "$1/out/x.json"; jq -n --slurpfile a "$1/out/x.json" '$a'
