"""What the ranks of a job do now: who answers, and rates as differences of two answers; knows
neither the parts of a daemon nor a terminal."""
