# does: list a directory with several threads, a program for each file (Rust)
# version: fdfind --version
fdfind . "$1/files" | sort; fdfind -e txt . "$1/files" -x cp {} "$1/out/"; ls "$1/out"
