"""Formulas of the papers that FanStore follows: the results that a policy should have.

Sizes are in bytes, rates in bytes per second, times in seconds.
"""
