# does: bundle JavaScript (Go)
# version: esbuild --version
# remark: written in Go
esbuild "$1/files/main.js" --bundle --log-level=warning --outfile="$1/out/b.js" && cat "$1/out/b.js"
