# does: pack a directory, unpack it
# version: tar --version
tar -C "$1" --sort=name --mtime=@0 -cf "$1/out/t.tar" files && mkdir "$1/out/u" && tar -C "$1/out/u" -xf "$1/out/t.tar" && diff -r "$1/files" "$1/out/u/files" && echo same
