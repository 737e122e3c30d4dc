"""Closed forms of the papers that FanStore follows: what a policy should give, by formula.

Sizes are in bytes, rates in bytes per second, times in seconds.
"""
