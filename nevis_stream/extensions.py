"""What packages offer by name, through entry points: learners, configs, functions of features,
policies, predictors and methods of dynamic evaluation, subcommands, parts of the report.

A package says in its pyproject.toml what it offers, this one too:

    [project.entry-points."nevis_stream.learners"]
    my_learner = "my_package.learners:configure"

    [project.entry-points."nevis_stream.learner_tables"]
    my_learners = "my_package.learners:TABLE"

So nevis_stream imports nothing that stands above it. A learner's entry is a function like
`learner.Configure`; an entry of features takes images, uint8[n, side, side, channels], and a seed,
and returns float32[n, d] whose mean square is about 1; one of policies or predictors is an instance
of `policy.Policy` or `method.ScorePredictor`, one of methods a
`methods.Pair`; one of configs is a function that returns a config. An entry of commands has the
name of a command, and is a sequence of the `command_line.Subcommand`s that it gets;
one of report_parts is a module with the names of `report.parts.Part`.
An entry of `KIND_tables` is a mapping from names to such entries.
"""

import functools
import importlib.metadata
from collections.abc import Iterator, Mapping
from importlib.metadata import EntryPoint, EntryPoints
from typing import Any

from nevis_stream.errors import BadInput, unknown

LEARNERS = "nevis_stream.learners"
FEATURES = "nevis_stream.features"
POLICIES = "nevis_stream.policies"
PREDICTORS = "nevis_stream.predictors"
METHODS = "nevis_stream.methods"
CONFIGS = "nevis_stream.configs"
COMMANDS = "nevis_stream.commands"
REPORT_PARTS = "nevis_stream.report_parts"
_KINDS = {
    LEARNERS: "learner",
    FEATURES: "feature",
    POLICIES: "policy",
    PREDICTORS: "predictor",
    METHODS: "method",
    CONFIGS: "config",
    COMMANDS: "command",
    REPORT_PARTS: "part of the report",
}


@functools.cache
def entry_points(group: str) -> EntryPoints:
    """Returns what installed packages offer in a group, which is looked up once."""
    return importlib.metadata.entry_points(group=group)


class Offers(Mapping[str, Any]):
    """A table of this package, followed by what installed packages offer in a group.

    Attributes:
      own: the table. What is in it is found without a look at installed packages.
    """

    def __init__(self, group: str, own: Mapping[str, Any]):
        self.group, self.own = group, own

    def __getitem__(self, name: str) -> Any:
        if name in self.own:
            return self.own[name]
        if name not in list_offered(self.group):
            raise KeyError(name)
        return load(self.group, name)

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys([*self.own, *list_offered(self.group)]))

    def __len__(self) -> int:
        return sum(1 for _ in self)


def list_offered(group: str) -> list[str]:
    """Returns the names of a group, such as LEARNERS, in the order in which they are listed.

    Raises:
      BadInput: a table of names cannot be imported.
    """
    names = [entry.name for entry in entry_points(group=group)]
    for entry in _find_tables(group):
        names += _import(entry)
    return list(dict.fromkeys(names))


def load(group: str, name: str) -> Any:
    """Imports what an installed package offers.

    Args:
      group: such as LEARNERS.
      name: of the entry, or in a table.

    Raises:
      BadInput: no package offers this name, several do, or it cannot be imported.
    """
    kind = _KINDS[group]
    offers = {e.value: _import(e) for e in entry_points(group=group) if e.name == name}
    broken = []
    for entry in _find_tables(group):
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
        raise BadInput(unknown(kind, name, list_offered(group)) + explain_absence(group))
    if len(offers) > 1:
        raise BadInput(f"{kind} {name!r}: offered by several packages: {', '.join(offers)}.")
    (offer,) = offers.values()
    return offer


def explain_absence(group: str) -> str:
    """Returns a sentence for a message about a missing name: "" where a group offers others."""
    if list_offered(group):
        return ""
    return (
        f" No installed package offers any {_KINDS[group]} to nevis_stream, not even this one:"
        " install the project again, as README says."
    )


def _find_tables(group: str) -> EntryPoints:
    return entry_points(group=f"nevis_stream.{_KINDS[group]}_tables")


def _import(entry: EntryPoint) -> Any:
    try:
        return entry.load()
    except (ImportError, AttributeError) as error:
        raise BadInput(
            f"{entry.group}: {entry.name} = {entry.value} cannot be imported ({error})."
        ) from None
