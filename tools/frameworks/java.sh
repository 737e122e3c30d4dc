# does: walk, read, write
# version: java --version
java "$1/files/Walk.java" "$1"
