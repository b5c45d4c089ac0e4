"""Saturating arithmetic on amounts of resources: results stop at 64 bits instead of overflowing.

A quantity is at most MOST (2**63 - 1); a larger one is parsed as MOST (model/quantity.py). But a pod may request MOST
of anything, and a user who sets `spec.nodeName` binds it to any node, so sums and differences can be larger. They
become MOST or -MOST here. No decision is wrong because of that: no node has more than MOST, so where pods use MOST,
nothing is free for another pod, which requests at least 1.
"""

import numpy as np
from numpy.typing import NDArray

Amounts = NDArray[np.int64]
"""int64[..., rows], each from -MOST to MOST"""

MOST = 2**63 - 1
_LIMB = 32  # bits; 2**31 numbers below 2**32 can be summed in 64 bits, which is more than any cluster has pods
_LOW = (1 << _LIMB) - 1


def difference(amounts: Amounts, taken: Amounts) -> Amounts:
    """amounts - taken, at least -MOST; `taken` is not negative."""
    left = amounts - taken
    left[(left > amounts) | (left < -MOST)] = -MOST
    return left


def total(amounts: Amounts, more: Amounts) -> Amounts:
    """amounts + more, at most MOST; neither is negative."""
    both = amounts + more
    both[both < amounts] = MOST
    return both


def sums(amounts: Amounts, begins: NDArray[np.intp]) -> Amounts:
    """Returns int64[..., parts]: the sums of the parts that begin there, at most MOST each; no amount is negative."""
    if int(amounts.max(initial=0)) <= MOST // max(amounts.shape[-1], 1):
        return np.asarray(np.add.reduceat(amounts, begins, axis=-1))
    low = np.add.reduceat(amounts & _LOW, begins, axis=-1)
    high = np.add.reduceat(amounts >> _LIMB, begins, axis=-1) + (low >> _LIMB)
    return np.where(high > MOST >> _LIMB, MOST, ((high & (MOST >> _LIMB)) << _LIMB) | (low & _LOW))


def hundredths(parts: Amounts, wholes: Amounts) -> Amounts:
    """parts * 100 // wholes, exactly; parts are from 0 to their wholes, and no whole is 0."""
    if int(wholes.max(initial=0)) <= MOST // 100:
        return parts * 100 // wholes
    # Long division in base 2, with the digits of 100 for a dividend: no remainder reaches 2 * whole, which fits.
    added, divisors = parts.astype(np.uint64), wholes.astype(np.uint64)
    quotient, remainder = np.zeros_like(parts), np.zeros_like(added)
    for digit in f"{100:b}":
        quotient, remainder = _reduced(2 * quotient, remainder + remainder, divisors)
        if digit == "1":
            quotient, remainder = _reduced(quotient, remainder + added, divisors)
    return quotient


def _reduced(
    quotient: Amounts, remainder: NDArray[np.uint64], divisors: NDArray[np.uint64]
) -> tuple[Amounts, NDArray[np.uint64]]:
    over = remainder >= divisors
    return quotient + over, np.where(over, remainder - divisors, remainder)
