# does: zstd, pigz, gzip, xz: pack and unpack files, zgrep
# version: zstd --version
cd "$1/out" && zstd -q -T2 "$1/files/a.txt" -o a.zst && pigz -p 2 -nc "$1/files/a.txt" >a.gz && cp "$1/files/a.txt" a && xz a && zstd -qdc a.zst | cmp - "$1/files/a.txt" && gunzip -k a.gz && cmp a "$1/files/a.txt" && xz -dc a.xz | sha256sum && zgrep -c line a.gz && ls
