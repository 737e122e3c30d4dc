/*
 * Packs on the shared file system, which every rank may read.
 */
#pragma once

#include "../machine/transport.h"

struct fan_mounts;
struct fan_origin_read;

/* Reads the bytes of one of this node's own requests from the shared file system. Any thread may
 * call it. Returns 0, -EIO, or -errno if this process lacks something. */
int fan_shared_read(struct fan_mounts *mounts, const struct fan_fetch_request *request, void *to);

/* Do together what fan_shared_read does. fan_shared_begin does not wait. The caller may begin
 * several reads before it ends the first, and must end each. */
void fan_shared_begin(struct fan_mounts *mounts, struct fan_origin_read *read);
int fan_shared_end(struct fan_mounts *mounts, const struct fan_origin_read *read);
