/*
 * Reads the files of one folder whole, by several threads at once, and prints nanoseconds per file
 * for each round.
 *
 *     remote_reader FOLDER THREADS ROUNDS
 *
 * The first round is not printed.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "paths.h"
#include "whole.h"

static struct list files;
static atomic_size_t next_file;

static void *read_files(void *buffer)
{
    for (size_t i; (i = atomic_fetch_add(&next_file, 1)) < files.count;)
        read_whole(files.paths[i], buffer);
    return NULL;
}

int main(int argc, char **argv)
{
    if (argc != 4 || atoi(argv[2]) < 1 || atoi(argv[2]) > THREADS_MAX) {
        fprintf(stderr, "usage: remote_reader FOLDER THREADS ROUNDS\n");
        return 2;
    }
    list_folder(&files, argv[1]);
    for (int round = 0; round <= atoi(argv[3]); round++) {
        atomic_store(&next_file, 0);
        double ns = on_threads((unsigned)atoi(argv[2]), read_files);
        if (round > 0)
            printf("%.0f\n", ns / (double)files.count);
    }
    return 0;
}
