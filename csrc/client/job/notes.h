/*
 * Lines that clients add to the job's report, by way of a file in the job directory.
 */
#ifndef FAN_CLIENT_NOTES_H
#define FAN_CLIENT_NOTES_H

/* Adds a line to `file` of the job directory, as long as that is not long. */
void fan_job_note(const char *file, const char *line);

#endif
