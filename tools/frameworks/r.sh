# does: list.files, read.table, write.csv, saveRDS and readRDS, file.copy
# version: Rscript --version
Rscript --vanilla -e 'd <- commandArgs(TRUE)[1]; print(list.files(file.path(d, "files"), recursive = TRUE))
x <- read.table(file.path(d, "files/a.txt")); write.csv(x, file.path(d, "out/x.csv")); saveRDS(x, file.path(d, "out/x.rds"))
print(dim(readRDS(file.path(d, "out/x.rds")))); print(file.copy(file.path(d, "files/sub"), file.path(d, "out"), recursive = TRUE))' "$1"
