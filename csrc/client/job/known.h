/*
 * What is known of outputs without a question to the node daemon: the names segment
 * (format/names_format.h). As ask.h, nothing here keeps state that fork or signal handlers could
 * find half made.
 */
#ifndef FAN_CLIENT_KNOWN_H
#define FAN_CLIENT_KNOWN_H

#include <stdbool.h>
#include <stddef.h>

#include "../../common/names.h"
#include "ask.h"

/* Looks at a name that another rank keeps (content/far.h), which this room knows nothing of; set
 * before the first look. */
typedef int fan_far(uint32_t home, const struct fan_names_path *path, bool follow,
                    struct fan_output_attr *attr);
extern fan_far *fan_known_far;

/* The segment, mapped on first use. false where there is none. */
bool fan_job_names(struct fan_names *names);

/* A path in a mount, of which the first `base_bytes` are a directory of the dataset, without the
 * `slash` at its end. false: it is not in normal form, or the mount itself. */
bool fan_output_path(const struct fan_view *view, const char *path, size_t base_bytes,
                     struct fan_names_path *named, bool *slash);

/* LOOKUP of a path in a mount, of which the first `base_bytes` are a directory of the dataset: 0
 * with the `answer` (HERE), and a link's target in `text`, where else it is left as it is; -errno;
 * FAN_NAMES_ASK. text: may be the path that is asked about. */
int fan_output_known(const struct fan_view *view, const char *path, size_t base_bytes, bool follow,
                     struct fan_output_answer *answer, char text[FAN_OUTPUT_PATH_MAX]);

/* LIST of a directory, its path in normal form. 0 or FAN_NAMES_ASK. */
int fan_output_known_list(const struct fan_view *view, const char *path,
                          struct fan_output_listing *listing);

#endif
