"""Predicts the reads of a job: its loaders announce them, or its user names them, or they are
learnt from earlier reads."""
