# does: make with 2 jobs among the outputs, again without work to do
# version: make --version
cp -r "$1/files" "$1/out/m" && cd "$1/out/m" && printf 'p: main.o\n\tcc -o $@ $<\nmain.o: main.c n.h\n\tcc -I. -c -o $@ $<\n' >Makefile && make -j2 && make && ./p
