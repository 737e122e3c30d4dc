"""The report of a job: the figures of its trace, as one HTML page with plots and as JSON
(docs/report.md)."""
