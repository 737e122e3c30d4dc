# does: print files (Rust)
# version: batcat --version
batcat --no-config --style=plain "$1/files/sub/b.txt" "$1/files/a.json" >"$1/out/b.txt"; cat "$1/out/b.txt"
