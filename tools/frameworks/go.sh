# does: build a program of the mount, which walks, reads and writes (Go)
# version: go version
# remark: written in Go, as is the program that it builds
export GOCACHE="$1/out/cache" GO111MODULE=off
cp "$1/files/main.go" "$1/out" && cd "$1/out" && go build -o p main.go && ./p "$1"
