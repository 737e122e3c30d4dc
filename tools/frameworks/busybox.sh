# does: ls, cat, cp (statically linked)
# version: busybox
# remark: statically linked
busybox ls "$1/files"; busybox cat "$1/files/a.txt"; busybox cp "$1/files/a.txt" "$1/out/b.txt"
