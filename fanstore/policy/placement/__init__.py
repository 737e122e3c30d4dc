"""Policies that decide which rank keeps which files, and in which storage class.

Each policy takes the size of each file in bytes and the capacity of each class of each rank in
bytes (ranks x classes, fastest class first), and returns the class of each file on each rank: uint8
(ranks x files), NOWHERE if a rank does not keep it. No class ever holds more than its capacity.
While there are more files to keep, less room stays free in a class than the largest file that it
could take.
"""
