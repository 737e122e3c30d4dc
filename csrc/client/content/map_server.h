/*
 * Maps by need: the job's map server (csrc/maps) has each input that it is asked for as a file on a
 * FUSE mount that only it sees. A program maps that file: a page that it touches comes from the
 * rank, the bucket or the shared file system that has it, once for all programs of the rank.
 */
#pragma once

#include "../files/file.h"

/* Asks the map server for an open input that this rank does not have. Returns a descriptor, which
 * the caller closes, or -errno: there is no server here, or the input is mapped in another way. */
int fan_map_server_open(const struct fan_file *file);
