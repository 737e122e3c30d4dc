# does: copy a directory, twice
# version: rsync --version
rsync -a "$1/files/" "$1/out/r/" && rsync -ai "$1/files/" "$1/out/r/"; diff -r "$1/files" "$1/out/r" && echo same
