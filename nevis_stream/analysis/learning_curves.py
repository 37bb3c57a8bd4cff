"""Learning curves: dev error of the chosen trial against training steps."""

from typing import Any

from nevis_stream.run_directory.ledger import Ledger
from nevis_stream.run_directory.records import TrainRecord


def learning_curves(ledger: Ledger) -> dict[str, list[tuple[float, float]]]:
    """Returns, for every trained task, the (step, dev error) pairs of its chosen trial.

    Points whose dev error is not a finite number are left out; a trial without a curve has an empty
    list. Learners may record anything (`info`), so every value is checked.
    """
    return {train.task_id: _pairs(_curve(train)) for train in ledger.of_kind(TrainRecord)}


def _curve(train: TrainRecord) -> Any:
    return train.chosen_trial.info.get("curve") if train.chosen_trial else None


def _pairs(curve: Any) -> list[tuple[float, float]]:
    points = curve if isinstance(curve, list) else []
    triples = [p for p in points if isinstance(p, list) and len(p) == 3]
    return [(step, dev) for step, _, dev in triples if _is_usable(step) and _is_usable(dev)]


def _is_usable(value: Any) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and abs(value) <= 2**53
