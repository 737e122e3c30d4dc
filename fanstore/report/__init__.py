"""The report of a job: what its trace shows, as one HTML page with plots and as JSON
(docs/report.md)."""
