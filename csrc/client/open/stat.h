/*
 * Fills the attributes of files of the mount: stat and related calls.
 */
#pragma once

#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>

#include "../files/filetable.h"
#include "../paths/resolve.h"

/* Does stat(2) of a resolved target (not FAN_BEYOND). Returns -errno if it is missing. */
int fan_stat(const struct fan_target *target, struct stat *st);

/* Fills the struct of statx(2) from a filled stat. */
void fan_stat_to_statx(const struct stat *st, struct statx *stx);

/* Does fstat(2) of an open file that is a record or an output. Returns 0 or -errno. */
int fan_stat_file(int fd, const struct fan_file *file, struct stat *st);

/* Does statfs(2): shows a file system of a remote type, with the dataset's totals and the free
 * space of the job directory's file system. */
void fan_statfs(const struct fan_view *view, const struct fan_dataset *dataset, struct statfs *fs);
void fan_statvfs(const struct fan_view *view, const struct fan_dataset *dataset,
                 struct statvfs *fs);
