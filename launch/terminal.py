"""Tables and numbers, printed in the same way by every command."""

import math

from nevis_stream.cost.meter import engineering
from nevis_stream.queries.oracle import Estimate
from nevis_stream.terminal import Console

_WITHOUT_TERMINAL = 180  # columns; enough for every table


def console() -> Console:
    """Returns a console on standard output; if that is no terminal, wide enough for every table."""
    return Console(width=None if Console().is_terminal else _WITHOUT_TERMINAL)


def estimate_cells(estimate: Estimate) -> tuple[str, str]:
    """Returns the cells of a table for an estimate, and for its interval or why there is none."""
    value = "–" if math.isnan(estimate.value) else f"{estimate.value:z.4f}"
    if math.isnan(estimate.low):
        return value, f"no interval: {estimate.reason}"
    return value, f"{estimate.low:z.4f} to {estimate.high:z.4f}"


def flops(value: float | None) -> str:
    """Returns FLOPs in engineering notation, or "unknown"."""
    return "unknown" if value is None else f"{engineering(value)} FLOPs"
