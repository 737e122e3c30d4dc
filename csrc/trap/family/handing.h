/* Sends descriptors between the processes of `fanstore-trap`, and closes those that none of them
 * may keep. */
#ifndef FAN_TRAP_HANDING_H
#define FAN_TRAP_HANDING_H

/* Sends `fd` over a socket of a pair; does nothing if the other side has gone. */
void fan_send_fd(int socket, int fd);

/* Receives a descriptor; -1: the other side has gone. */
int fan_receive_fd(int socket);

/* Lets go of everything that belongs to the command: its streams, its working directory, and its
 * descriptors except those in `kept`, which ends with -1. */
void fan_let_go(const int *kept);

#endif
