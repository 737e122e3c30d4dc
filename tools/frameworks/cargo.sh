# does: cargo build with its target directory in the mount, twice
# version: cargo --version
export CARGO_INCREMENTAL=0; mkdir "$1/out/c" && cd "$1/out/c" && cp "$1/files/main.rs" . && printf '[package]\nname="p"\nversion="1.0.0"\n[[bin]]\nname="p"\npath="main.rs"\n' >Cargo.toml && cargo build -q --offline && cargo build -q --offline && target/debug/p "$1"
