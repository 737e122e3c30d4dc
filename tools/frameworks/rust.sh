# does: compile a program of the mount, which walks, reads and writes (Rust's standard library)
# version: rustc --version
rustc -o "$1/out/p" "$1/files/main.rs" && "$1/out/p" "$1"
