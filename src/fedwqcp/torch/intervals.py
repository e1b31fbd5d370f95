"""Scores of regressors on tensors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from fedwqcp.errors import InputError
from fedwqcp.kernels.torch import distance, ratio, reach, stretch, torch
from fedwqcp.scores import IntervalScore
from fedwqcp.scores.absolute_residual import AbsoluteResidual
from fedwqcp.scores.cqr import CQR
from fedwqcp.scores.normalized_residual import NormalizedResidual
from fedwqcp.torch.labels import Measured

Tensor: TypeAlias = torch.Tensor


class TensorIntervals(NamedTuple):
    """One closed interval for each row; it is empty where ``lower > upper``.

    Parameters
    ----------
    lower, upper : Tensor, shape (n,)
        The ends, float64; infinite ends are allowed.
    """

    lower: Tensor
    upper: Tensor


@dataclass(frozen=True)
class TensorIntervalScore:
    """A score of a regressor's output and a real y, on tensors.

    Parameters
    ----------
    score : IntervalScore
        AbsoluteResidual, NormalizedResidual or CQR.
    """

    score: IntervalScore

    def __post_init__(self) -> None:
        if not isinstance(self.score, AbsoluteResidual | NormalizedResidual | CQR):
            raise InputError(f"{self.score!r} works on arrays alone; pass outputs.cpu().numpy()")

    def of(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Return the scores, shape (n,) or (n, columns).

        Parameters
        ----------
        outputs : Tensor, shape (n,) or (n, width)
            What the model put out.
        y : Tensor, shape (n,)
            The true values.

        Returns
        -------
        Tensor
            float64, on the device of the outputs.
        """
        low, high, scale = self._centre(outputs)
        values = _finite(y, "y", (len(low),)).to(low.device)
        below, above = distance(-low, -values), distance(high, values)
        if self.score.columns == 2:
            return torch.stack([below, above], 1)
        worst = torch.maximum(below, above)
        return worst if scale is None else ratio(worst, scale)

    def invert(self, outputs: Tensor, threshold: object) -> TensorIntervals:
        """Return the prediction intervals {y : V(x, y) <= threshold}.

        Parameters
        ----------
        outputs : Tensor, shape (n,) or (n, width)
            What the model put out.
        threshold : float or Tensor
            Shape () for one threshold, (n, 1) for one per row, (columns,) for one per column.

        Returns
        -------
        TensorIntervals
            One interval per row.
        """
        low, high, scale = self._centre(outputs)
        q = torch.as_tensor(threshold, dtype=torch.float64).to(low.device)
        if bool(q.isnan().any()):
            raise InputError("the threshold must be a number or +inf, got NaN")
        shape = (len(low), self.score.columns)
        try:
            wide = q.expand(shape)
        except RuntimeError:
            raise InputError(
                f"a threshold of shape {tuple(q.shape)} does not fit scores of shape {shape}"
            ) from None
        below, above = wide[:, 0], wide[:, -1]
        if scale is not None:
            below, above = stretch(below, scale), stretch(above, scale)
        return TensorIntervals(-reach(-low, below), reach(high, above))

    def measure(self, outputs: Tensor, y: Tensor, threshold: object) -> Measured:
        """Return which intervals hold their value and how long they are.

        Parameters
        ----------
        outputs : Tensor, shape (n,) or (n, width)
            What the model put out.
        y : Tensor, shape (n,)
            The true values.
        threshold : float or Tensor
            As for `invert`.

        Returns
        -------
        Measured
            One entry for each row; sizes are lengths.
        """
        lower, upper = self.invert(outputs, threshold)
        values = _finite(y, "y", (len(lower),)).to(lower.device)
        return Measured((lower <= values) & (values <= upper), (upper - lower).clamp(min=0.0))

    def _centre(self, outputs: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return from where a distance is measured down and up, and its unit."""
        n = len(outputs)
        out = _finite(outputs, "outputs", (n,) if self.score.width == 1 else (n, 2))
        if isinstance(self.score, CQR):
            ends = out.sort(1).values
            return ends[:, 0], ends[:, 1], None
        if not isinstance(self.score, NormalizedResidual):
            return out, out, None
        negative = out[:, 1] < 0
        if bool(negative.any()):
            row = int(negative.int().argmax())
            raise InputError("spreads must be at least 0, the spread of {row} is negative", row=row)
        return out[:, 0], out[:, 0], out[:, 1].clamp(min=self.score.floor)


def _finite(values: Tensor, what: str, shape: tuple[int, ...]) -> Tensor:
    """Return finite numbers as float64 of a shape."""
    if not isinstance(values, torch.Tensor) or tuple(values.shape) != shape:
        raise InputError(f"{what} must be a tensor of shape {shape}")
    numbers = values.detach().to(torch.float64)
    if not bool(torch.isfinite(numbers).all()):
        bad = ~torch.isfinite(numbers.reshape(len(numbers), -1)).all(1)
        raise InputError(
            f"{what} must be finite numbers, {{row}} is not", row=int(bad.int().argmax())
        )
    return numbers
