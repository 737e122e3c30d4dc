/*
 * Who has an output of the tree open for writing (fan_outputs.writers): so that a file whose writer
 * is killed is known not to be finished. An entry is its process's alone; threads, signal handlers
 * and children may come here at any time. Processes in another PID namespace than the daemon have
 * none: it could not tell whether they live.
 */
#ifndef FAN_CLIENT_WRITERS_H
#define FAN_CLIENT_WRITERS_H

#include "../files/filetable.h"

/* This process has the file open: its inode is in the slot. Does nothing where it has an entry. */
void fan_writer_claim(struct fan_file *file);

/* The same for what this process gives to the program that it becomes. */
void fan_writer_claim_handed(uint64_t inode);

/* It no longer has. */
void fan_writer_release(const struct fan_file *file);

/* After exec: the entries of this process that no file of `is_held` has are given back. */
void fan_writer_release_others(bool (*is_held)(uint32_t entry));

/* The file's entry is another process's from now on, which does not say when it closes it. */
void fan_writer_pass_on(struct fan_file *file, uint32_t process);

/* This process ends by itself, or becomes a program that the library cannot enter. */
void fan_writer_release_all(void);

/* The same of another process. */
void fan_writer_release_of(uint32_t process);

/* In a child of fork. */
void fan_writer_after_fork_child(void);

#endif
