"""Readers of archive formats: tar, zip, and others through libarchive."""
