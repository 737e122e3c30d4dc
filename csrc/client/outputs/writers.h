/*
 * Records which processes have an output of the tree open for writing (fan_outputs.writers), so
 * that the daemon knows a file as unfinished if its writer was killed. Only the process of an entry
 * changes it; threads, signal handlers and children may call this at any time. Processes in another
 * PID namespace than the daemon's have no entries: the daemon could not see whether they live.
 */
#pragma once

#include "../files/filetable.h"

/* Adds an entry for a file that this process has open; the slot holds its inode. Does nothing if
 * there is an entry already. */
void fan_writer_claim(struct fan_file *file);

/* Like fan_writer_claim, for an output that this process passes on through exec. */
void fan_writer_claim_handed(uint64_t inode);

/* Removes the entry: this process no longer has the file open. */
void fan_writer_release(const struct fan_file *file);

/* Call it after exec. Removes this process's entries for which `is_held` returns false. */
void fan_writer_release_others(bool (*is_held)(uint32_t entry));

/* Gives the file's entry to another process, which does not report when it closes the file. */
void fan_writer_pass_on(struct fan_file *file, uint32_t process);

/* Removes all entries of this process, which exits or becomes a program that the library cannot
 * enter. */
void fan_writer_release_all(void);

/* Like fan_writer_release_all, for another process. */
void fan_writer_release_of(uint32_t process);

/* Call it in a fork child. */
void fan_writer_after_fork_child(void);
