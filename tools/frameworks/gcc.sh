# does: compile sources of a mount with their headers, run the program there
# version: gcc --version
gcc -I"$1/files" -o "$1/out/p" "$1/files/main.c" && "$1/out/p"
