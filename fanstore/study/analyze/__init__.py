"""Finds where a job waits, and predicts what would help: DS-Analyzer's rates and predictions (Mohan
et al., Analyzing and mitigating data stalls in DNN training, VLDB 2021, sections 4.2 and 5)."""
