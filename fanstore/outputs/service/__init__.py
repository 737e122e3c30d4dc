"""The outputs of one node while a job runs: the socket, the thread and all parts put together."""
