"""std::seed_seq of C++, with one seed."""

from __future__ import annotations

_BITS = 0xFFFFFFFF


def _mixed(value: int) -> int:
    value &= _BITS
    return value ^ value >> 27


def seed_seq(seed: int, count: int) -> list[int]:
    """Returns what the first call of generate() gives: `count` numbers of 32 bits, 4 to 6 of
    them."""
    x = [0x8B8B8B8B] * count
    step = (count - (count - 1) // 2) // 2
    far = step + (count - 1) // 2
    added = [1, 1 + seed]  # how many seeds there are; the place and the seed
    for k in range(count):
        near, last = (k + step) % count, (k + far) % count
        one = 1664525 * _mixed(x[k] ^ x[near] ^ x[k - 1])
        two = one + (added[k] if k < 2 else k)
        x[near] = x[near] + one & _BITS
        x[last] = x[last] + two & _BITS
        x[k] = two & _BITS
    for k in range(count):
        near, last = (k + step) % count, (k + far) % count
        one = 1566083941 * _mixed(x[k] + x[near] + x[k - 1])
        two = one - k
        x[near] ^= one & _BITS
        x[last] ^= two & _BITS
        x[k] = two & _BITS
    return x
