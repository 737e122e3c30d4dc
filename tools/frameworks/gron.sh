# does: read a JSON file (Go)
# version: gron --version
# remark: written in Go, whose runtime makes system calls by itself: use `--trap`
gron "$1/files/a.json"
