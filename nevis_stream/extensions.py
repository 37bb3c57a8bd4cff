"""What packages offer by name, through entry points: learners and functions of features.

A package says in its pyproject.toml what it offers, this one too:

    [project.entry-points."nevis_stream.learners"]
    my_learner = "my_package.learners:configure"

    [project.entry-points."nevis_stream.learner_tables"]
    my_learners = "my_package.learners:TABLE"

So nevis_stream imports nothing that stands above it. A learner's entry is a function like
`learner.Configure`, one of `learner_tables` a mapping from names to such functions; an entry
of features takes images, uint8[n, side, side, channels], and a seed, and returns float32[n, d]
whose mean square is about 1.
"""

from importlib.metadata import EntryPoint, entry_points
from typing import Any

from nevis_stream.errors import BadInput, unknown

LEARNERS = "nevis_stream.learners"
FEATURES = "nevis_stream.features"
_TABLES = {LEARNERS: "nevis_stream.learner_tables", FEATURES: ""}


def list_offered(group: str) -> list[str]:
    """Returns the names of a group, LEARNERS or FEATURES, in the order in which they are listed.

    Raises:
      BadInput: a table of names cannot be imported.
    """
    names = [entry.name for entry in entry_points(group=group)]
    for entry in entry_points(group=_TABLES[group]):
        names += _import(entry)
    return list(dict.fromkeys(names))


def load(group: str, name: str) -> Any:
    """Imports what an installed package offers.

    Args:
      group: LEARNERS or FEATURES.
      name: of the entry, or in a table.

    Raises:
      BadInput: no package offers this name, several do, or it cannot be imported.
    """
    kind = group.removeprefix("nevis_stream.").removesuffix("s")
    offers = {entry.value: _import(entry) for entry in entry_points(group=group, name=name)}
    broken = []
    for entry in entry_points(group=_TABLES[group]):
        try:
            table = _import(entry)
        except BadInput as error:  # of another package, as far as is known
            broken.append(error)
            continue
        if name in table:
            offers[entry.value] = table[name]
    if not offers and broken:
        raise broken[0]
    if not offers:
        hint = ""
        if not list_offered(group):
            hint = " Install the project again, as README says: it was not installed with them."
        raise BadInput(unknown(kind, name, list_offered(group)) + hint)
    if len(offers) > 1:
        raise BadInput(f"{kind} {name!r}: offered by several packages: {', '.join(offers)}.")
    (offer,) = offers.values()
    return offer


def _import(entry: EntryPoint) -> Any:
    try:
        return entry.load()
    except (ImportError, AttributeError) as error:
        raise BadInput(
            f"{entry.group}: {entry.name} = {entry.value} cannot be imported ({error})."
        ) from None
