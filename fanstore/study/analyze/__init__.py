"""Finds out what a job waits for, and predicts which changes would help: the rates and predictions
of DS-Analyzer (Mohan et al., Analyzing and mitigating data stalls in DNN training, VLDB 2021,
sections 4.2 and 5)."""
