"""A measured throughput or time as a function of the number of participants, such as threads or
ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fanstore.arrays import np
from fanstore.policy import checks

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


class Curve:
    """A function given by measured points: linear between them, constant beyond the first and
    last."""

    def __init__(self, at: ArrayLike, values: ArrayLike) -> None:
        """Raises ValueError if `at` is not positive and rising, a value is not positive, or a
        number is not finite."""
        self._at = np.asarray(at, dtype=np.float64)
        self._values = np.asarray(values, dtype=np.float64)
        if self._at.ndim != 1 or not self._at.size or self._at.shape != self._values.shape:
            raise ValueError(
                f"a curve has {self._at.shape} points and {self._values.shape} values; "
                "allowed is one value for each of one or more points"
            )
        if not (np.isfinite(self._at) & (np.diff(self._at, prepend=0) > 0)).all():
            raise ValueError(
                f"a curve is given at {self._at.tolist()}; allowed is what rises, finite"
            )
        if not ((self._values > 0) & np.isfinite(self._values)).all():
            raise ValueError(
                f"a curve has values {self._values.tolist()}; allowed are those above 0"
            )

    def __call__(self, at: ArrayLike) -> NDArray[np.float64]:
        """Returns the function's values at the points `at`."""
        return np.asarray(np.interp(np.asarray(at, dtype=np.float64), self._at, self._values))

    def share(self, count: float) -> float:
        """Returns what one of `count` participants gets of their common throughput."""
        count = checks.rate("count", count)
        return float(self(count)) / count
