/*
 * Lines that clients add to the job's report, through a file in the job directory.
 */
#ifndef FAN_CLIENT_NOTES_H
#define FAN_CLIENT_NOTES_H

/* Appends a line to `file` of the job directory, unless the file is long already. */
void fan_job_note(const char *file, const char *line);

#endif
