# does: search a directory (Rust)
# version: rg --version
rg --sort path -n line "$1/files"; rg --no-config --files "$1/files" | sort
