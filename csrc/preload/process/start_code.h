/*
 * Prepares programs that are in a mount, or load libraries from one: makes the program and its
 * libraries real before it runs, and adds directories in which it would not find its libraries to
 * LD_LIBRARY_PATH. The program itself sees the LD_LIBRARY_PATH that it was given (load.h).
 */
#pragma once

#include <stddef.h>

#include "../../client/code/program.h"
#include "environment.h"

struct fan_code_tree;

struct fan_start_code {
    struct fan_code_tree *tree;
    const char *path;         /* the path of the file to run */
    const char *program;      /* the path of its real file */
    const char *library_path; /* NULL: unchanged */
    const char *before;
    size_t bytes; /* of the memory that fan_start_code_end needs */
};

/* Prepares `program`, in a mount or outside. script: a script that it runs, or NULL. Returns 0, or
 * -errno, after which there is nothing to end. */
int fan_start_code_begin(struct fan_start_code *code, const char *program, const char *script,
                         char *const env[]);

/* Ends the preparation: puts the entries into `environment` and returns the path to run. All of
 * this is in `memory`. */
const char *fan_start_code_end(struct fan_start_code *code, void *memory,
                               struct fan_environment *environment);

enum fan_start_outside {
    FAN_START_PLAIN,      /* uses no file of a mount */
    FAN_START_WITH_CODE,  /* may load libraries of a mount: call fan_start_code_begin */
    FAN_START_INTERPRETED /* a script whose interpreter is in a mount: `head` is filled */
};

/* Finds out how the program or script at `path`, which is outside, depends on mounts. Sets *program
 * to the file that the kernel runs: `path`, or a name in `head`. */
enum fan_start_outside fan_start_look(const char *path, char *const env[],
                                      char head[FAN_SCRIPT_HEAD_BYTES + 1], const char **program);
