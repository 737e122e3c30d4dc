# does: LocalFileSystem: glob, cat, put, mv; a compressed file
# needs: fsspec
import fsspec
from case import run


def make(directory):
    for n in range(5):
        (directory / f"{n}.txt").write_text(str(n))


def use(directory):
    files = fsspec.filesystem("file")
    print([files.cat_file(p) for p in sorted(files.glob(f"{directory}/*.txt"))])
    files.makedirs(f"{directory}/out/sub")
    files.put(f"{directory}/1.txt", f"{directory}/out/sub/1.txt")
    files.mv(f"{directory}/out/sub/1.txt", f"{directory}/out/2.txt")
    with fsspec.open(f"{directory}/out/z.gz", "wt", compression="gzip") as file:
        file.write("inside")
    with fsspec.open(f"{directory}/out/z.gz", "rt", compression="gzip") as file:
        print(file.read(), sorted(p.rsplit("/", 1)[1] for p in files.ls(f"{directory}/out")))


run(make, use)
