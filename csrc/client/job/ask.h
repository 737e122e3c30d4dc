/*
 * Asks the node daemon about outputs (format/output_format.h): each question takes one connection,
 * one request and one answer. No state is kept between questions, so that threads, signal handlers,
 * fork and vfork children may ask at any time.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "../../format/output_format.h"

struct fan_view;

/* A question. Fields that are not set are 0. path, other: NUL-terminated, or NULL. */
struct fan_output_call {
    struct fan_output_request request; /* magic, lengths and counts: set by the functions below */
    const char *path;
    const char *other;
    size_t cut_bytes; /* bytes to leave out at the end of `path` */
};

/* The process for which this thread makes calls, if it is another one (csrc/trap); else 0. */
extern __thread uint32_t fan_output_behalf;

/* Asks, and waits for the answer: one minute at most, 15 for OPEN and TRUNCATE, because the daemon
 * may have to copy or fetch a file first. text: receives the answer's text with a NUL, unless it is
 * a listing; may be NULL, or the path that is asked about. Returns 0 or the daemon's -errno; -EIO:
 * there is no daemon, or it breaks the protocol; -EMFILE, -ENFILE: no descriptor is free for the
 * connection. */
int fan_output_ask(const struct fan_output_call *call, struct fan_output_answer *answer,
                   char text[FAN_OUTPUT_PATH_MAX]);

/* Like fan_output_ask, but writes `text` only if the answer is ELSEWHERE. */
int fan_output_ask_way(const struct fan_output_call *call, struct fan_output_answer *answer,
                       char text[FAN_OUTPUT_PATH_MAX]);

/* Returns the index of `view` in fan_job.views; a request to the daemon carries it in `view`. */
uint16_t fan_output_view(const struct fan_view *view);

/* The outputs in a directory: the text of a LIST answer, in pages of its own. All fields are 0 if
 * there are none. */
struct fan_output_listing {
    char *text;
    size_t bytes;
    size_t room;
};

/* Takes a snapshot of the outputs in the directory at `path`, relative to the mount. Returns 0 or
 * -errno. */
int fan_output_list(const struct fan_view *view, const char *path,
                    struct fan_output_listing *listing);

/* Returns the entry at byte `at`, which its name follows, and sets `next` to the start of the entry
 * after it. NULL at the end, or if the text is damaged. */
const struct fan_output_name *fan_output_next(const struct fan_output_listing *listing, size_t at,
                                              size_t *next);

void fan_output_list_end(struct fan_output_listing *listing);
