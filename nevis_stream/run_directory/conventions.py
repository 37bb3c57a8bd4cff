"""The conventions by which figures are made, with their versions, which a run's config.json states.

A convention that was never changed is not recorded: a config without one was begun under version 1.
A run goes on only under the versions with which it was begun.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nevis_stream.errors import BadInput

KEY = "conventions"
"""The name in config.json."""


@dataclass(frozen=True)
class Convention:
    """How something is measured.

    Attributes:
      version: the current one, from 1.
      change: what the current version does, as the end of "since this version …".
      everywhere: whether it holds for every run and decides costs alone, not predictors. Then its
        version is not part of the config's hash. Other conventions are those of the learners whose
        attribute `conventions` names them.
    """

    version: int
    change: str
    everywhere: bool = False


CONVENTIONS = {
    "flops": Convention(
        2,
        "Fourier transforms, complex numbers, ragged products, the index of the largest and"
        " branches that a loop's counter decides count what runs",
        everywhere=True,
    ),
    "relatedness": Convention(
        2, "images are compared in a random order instead of the order of their file"
    ),
}


def of_learner(learner: Any) -> dict[str, int]:
    """Returns the versions that a run of this learner records, by name."""
    used = getattr(learner, KEY, ())
    used = used if isinstance(used, tuple) else ()  # something else of the user's
    return {
        name: each.version
        for name, each in CONVENTIONS.items()
        if each.version > 1 and (each.everywhere or name in used)
    }


def identity(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the values of a config that identify its predictors."""
    versions = {
        name: version
        for name, version in values.get(KEY, {}).items()
        if name not in CONVENTIONS or not CONVENTIONS[name].everywhere
    }
    return {name: value for name, value in values.items() if name != KEY} | (
        {KEY: versions} if versions else {}
    )


def refuse_others(place: Any, there: Mapping[str, int], now: Mapping[str, int]) -> None:
    """Raises `BadInput` if the versions of an unfinished run are not those of today.

    Args:
      place: the run directory.
      there: versions with which the run was begun.
      now: versions of today.
    """
    for name in sorted(there | now):
        before, today = there.get(name, 1), now.get(name, 1)
        if before != today:
            reason = (
                f" (since version {today} {CONVENTIONS[name].change})" if before < today else ""
            )
            raise BadInput(
                f"{place}: this run was begun with version {before} of {name!r}, which is at"
                f" version {today} now{reason}, so the tasks that are left could not be compared"
                " with the first ones. It can be read (report, compare, watch) but not continued."
                " Choose another run_dir."
            )
