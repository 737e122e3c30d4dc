/*
 * The files of objects of this node: in many small folders, which file systems search faster, and
 * which programs that create files at the same time do not share.
 */
#ifndef FAN_CLIENT_OBJECTS_H
#define FAN_CLIENT_OBJECTS_H

#include <stdbool.h>
#include <stdint.h>

#include "../../format/output_format.h"

/* Puts the path of an object's file into `text`. false: it is not on this node. */
bool fan_output_object_path(uint64_t object, char text[FAN_OUTPUT_PATH_MAX]);

/* open(2) of a real file that an answer names, mostly of an object. With O_CREAT its folder is made
 * if need be, which is its owner's whatever the umask; `file` is as before when it returns. */
int fan_output_object_open(char *file, int flags, unsigned mode);

#endif
