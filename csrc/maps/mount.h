/*
 * The process that has the mount, in a user namespace and a mount namespace of its own: nobody else
 * sees the mount, no privilege is needed, and it ends with the process and the descriptors that
 * were passed on. This process takes the requests of programs, opens files on the mount and passes
 * their descriptors. It has no descriptor of /dev/fuse: a process that is killed while it closes a
 * file of its own mount would wait for its own answer for ever.
 *
 * A request is a message on a connection to the job's socket "maps": the path of an input. The
 * answer is 0 with a descriptor, or an errno (int32_t).
 */
#pragma once

/* Starts the process that has the mount. listener: the socket of programs' requests. Returns a
 * descriptor of /dev/fuse, on which the kernel's requests come, or -errno. Sets `link` to the
 * connection to that process. For a process with one thread. */
int fan_mount_start(int listener, int *link);

/* Waits a second for the path of the next input that a program asks for. Returns its length, 0 if
 * none came, or -errno if the other process has ended. */
long fan_mount_next(int link, char *path, unsigned long capacity);

/* Answers that: the number of the file on the mount, or -errno. */
void fan_mount_reply(int link, int number);
