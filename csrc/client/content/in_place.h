/*
 * Files of the shared file system that hold an input's bytes as a program sees them, from a page
 * on: the pack of an uncompressed file or, if the dataset is a directory, the original file. A
 * large file that this rank does not have is mapped there if there is no map server: nothing is
 * copied, and only the pages that the program touches are read.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "../files/file.h"

/* A file that is no longer than this is copied through the block cache: that takes a few
 * milliseconds and, as with all reads of such files, brings it to the disk that is to keep it. */
enum { FAN_MAP_COPIED_BYTES = 8 << 20 };

/* Returns whether a file begins on a page of its pack, uncompressed, with nothing but padding
 * behind it in its last page. With larger pages than the pack was made for, more would be there. */
bool fan_lies_in_pages(const struct fan_file *file);

/* Opens such a file of the shared file system for an open input that this rank does not have, and
 * sets where in it the input begins. Returns a descriptor, which the caller closes, or -errno: the
 * input is to be read in another way. */
int fan_in_place_open(const struct fan_file *file, uint64_t *start);
