/*
 * A question about outputs to the node daemon (format/output_format.h): one connection, one
 * request, one answer. No state is kept between questions, so that threads, signal handlers, fork
 * and vfork children may ask at any time.
 */
#ifndef FAN_CLIENT_ASK_H
#define FAN_CLIENT_ASK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../../format/output_format.h"

struct fan_view;

/* A question under construction: fields that are not set are 0. path, other: NUL-terminated, or
 * NULL. */
struct fan_output_call {
    struct fan_output_request request; /* magic, lengths and counts are filled in */
    const char *path;
    const char *other;
    size_t cut_bytes;        /* that much is left off at the end of `path` */
};

/* The process that this thread asks for, where that is another one (csrc/trap); else 0. */
extern __thread uint32_t fan_output_behalf;

/* Asks, and waits for the answer: one minute at most, for OPEN and TRUNCATE 15, as a file may have
 * to be copied or fetched first. text: takes an answer that is no listing, with a NUL; NULL: it is
 * not wanted; it may be the path that is asked about. Returns 0 or -errno, the daemon's; -EIO:
 * there is no daemon, or it breaks the protocol; -EMFILE, -ENFILE: there is no descriptor to ask
 * with. */
int fan_output_ask(const struct fan_output_call *call, struct fan_output_answer *answer,
                   char text[FAN_OUTPUT_PATH_MAX]);

/* As fan_output_ask, but writes `text` only where the answer is ELSEWHERE. */
int fan_output_ask_way(const struct fan_output_call *call, struct fan_output_answer *answer,
                       char text[FAN_OUTPUT_PATH_MAX]);

/* The number of a view in questions. */
uint16_t fan_output_view(const struct fan_view *view);

/* A directory's outputs, as LIST's text in pages of its own. All 0: none. */
struct fan_output_listing {
    char *text;
    size_t bytes;
    size_t room;
};

/* The outputs of the directory at `path`, relative to the mount: a snapshot. 0 or -errno. */
int fan_output_list(const struct fan_view *view, const char *path,
                    struct fan_output_listing *listing);

/* The entry at byte `at` with its name behind it, and in `next` where the one after begins. NULL at
 * the end, and where the text is damaged. */
const struct fan_output_name *fan_output_next(const struct fan_output_listing *listing, size_t at,
                                              size_t *next);

void fan_output_list_end(struct fan_output_listing *listing);

#endif
