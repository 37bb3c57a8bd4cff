"""What packages offer by name, through entry points: learners and functions of features.

A package says in its pyproject.toml what it offers, this one too:

    [project.entry-points."nevis_stream.learners"]
    my_learner = "my_package.learners:configure"

So nevis_stream imports nothing that stands above it. A learner's entry is a function like
`named_learners.Configure`; an entry of features takes images, uint8[n, side, side, channels], and a
seed, and returns float32[n, d] whose mean square is about 1.
"""

from importlib.metadata import entry_points
from typing import Any

from nevis_stream.errors import BadInput, unknown

LEARNERS = "nevis_stream.learners"
FEATURES = "nevis_stream.features"


def list_offered(group: str) -> list[str]:
    """Returns the names of a group, LEARNERS or FEATURES, in the order in which they are listed."""
    return list(dict.fromkeys(entry.name for entry in entry_points(group=group)))


def load(group: str, name: str) -> Any:
    """Imports what an installed package offers.

    Args:
      group: LEARNERS or FEATURES.
      name: of the entry.

    Raises:
      BadInput: no package offers this name, several do, or it cannot be imported.
    """
    kind = group.removeprefix("nevis_stream.").removesuffix("s")
    entries = {entry.value: entry for entry in entry_points(group=group, name=name)}
    if not entries:
        hint = ""
        if not list_offered(group):
            hint = " Install the project again (pip install -e .): it was not installed with them."
        raise BadInput(unknown(kind, name, list_offered(group)) + hint)
    if len(entries) > 1:
        raise BadInput(f"{kind} {name!r}: offered by several packages: {', '.join(entries)}.")
    (entry,) = entries.values()
    try:
        return entry.load()
    except (ImportError, AttributeError) as error:
        raise BadInput(f"{kind} {name!r}: {entry.value} cannot be imported ({error}).") from None
