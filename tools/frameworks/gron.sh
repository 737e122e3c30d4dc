# does: read a JSON file (Go)
# version: gron --version
# remark: written in Go
gron "$1/files/a.json"
