/*
 * Programs that are of a mount, or load what is: made real with their libraries before they are
 * run, and told by LD_LIBRARY_PATH of those that they would not find. The program sees the
 * LD_LIBRARY_PATH that it was given (load.h).
 */
#ifndef FAN_PRELOAD_START_CODE_H
#define FAN_PRELOAD_START_CODE_H

#include <stddef.h>

#include "../../client/code/program.h"
#include "environment.h"

struct fan_code_tree;

struct fan_start_code {
    struct fan_code_tree *tree;
    const char *path;         /* of the file to be run */
    const char *program;      /* where it was made real */
    const char *library_path; /* NULL: as it is */
    const char *before;
    size_t bytes; /* of memory to be given to fan_start_code_end */
};

/* Makes `program`, of a mount or outside, ready. script: to be run in its place, or NULL. 0, or
 * -errno and nothing to end. */
int fan_start_code_begin(struct fan_start_code *code, const char *program, const char *script,
                         char *const env[]);

/* Ends it: the path to be run, and in `environment` entries, all in `memory`. */
const char *fan_start_code_end(struct fan_start_code *code, void *memory,
                               struct fan_environment *environment);

enum fan_start_outside {
    FAN_START_PLAIN,      /* nothing of a mount */
    FAN_START_WITH_CODE,  /* what is run may load libraries of a mount: for fan_start_code_begin */
    FAN_START_INTERPRETED /* a script, whose interpreter lies in a mount: `head` is filled */
};

/* What the program or script at `path`, which is outside, has to do with mounts. *program: what the
 * kernel runs, `path` or in `head`. */
enum fan_start_outside fan_start_look(const char *path, char *const env[],
                                      char head[FAN_SCRIPT_HEAD_BYTES + 1], const char **program);

#endif
