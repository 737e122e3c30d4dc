# does: copy, check, and list by digest (Go)
# version: rclone --version
# remark: written in Go
export RCLONE_CONFIG=
rclone copy "$1/files" "$1/out/r" && rclone check "$1/files" "$1/out/r" 2>/dev/null && rclone md5sum "$1/out/r" | sort
