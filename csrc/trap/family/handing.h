/* Descriptors between the processes of `fanstore-trap`, and those that none of them may keep. */
#ifndef FAN_TRAP_HANDING_H
#define FAN_TRAP_HANDING_H

/* Sends `fd` over a socket of pairs; where the other side has gone nothing happens. */
void fan_send_fd(int socket, int fd);

/* A descriptor, or -1: the other side has gone. */
int fan_receive_fd(int socket);

/* Keeps nothing of the command's: its streams, its directory, its descriptors but for `kept`, which
 * ends with -1. */
void fan_let_go(const int *kept);

#endif
