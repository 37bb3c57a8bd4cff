"""Ways to divide the models of a matrix into known and new ones, for studies.

random         models, drawn one by one
group          whole groups (the checkpoints of one run are a group)
biased:KIND    known models are drawn from one kind, all models of other kinds are new; KIND is a
               group, or COLUMN=VALUE of the facts about models; with *, ? or [] it is a pattern,
               such as roberta*
by:COLUMN      the first models in the order of a column, for example a date, are known
stronger       the best quarter of the models, or of their groups by their best model, is new; known
               models are drawn from the rest
weaker         the same with the worst quarter
"""

import fnmatch
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from nevis_stream.errors import BadInput, unknown
from nevis_stream.evaluation_cache.facts import find_repeat
from nevis_stream.storage.reading import explain_absence
from nevis_stream.storage.tables import read_table

KINDS = ("random", "group", "biased:KIND", "by:COLUMN", "stronger", "weaker")
ENDS = ("stronger", "weaker")
NEW = 0.25  # of the models, or groups, in a split by strength
GROUP = "group"


def split(
    models: int, groups: np.ndarray | None, known: float, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the rows of the known and of the new models, int64, ascending; groups are drawn as a
    whole.

    Args:
      models: number of models, m.
      groups: str[m]; None: each model is a group of its own.
      known: fraction of the groups that is known.
      seed: draws them.

    Raises:
      BadInput: the fraction leaves no known or no new group.
    """
    _, group = np.unique(np.arange(models) if groups is None else groups, return_inverse=True)
    count = int(group.max()) + 1
    known_count = _count_known(known, count, "models" if groups is None else "groups of models")
    is_known = np.isin(group, np.random.default_rng(seed).permutation(count)[:known_count])
    return np.flatnonzero(is_known), np.flatnonzero(~is_known)


def _count_known(known: float, count: int, what: str) -> int:
    """Returns how many of `count` are known; BadInput unless some are known and some are new."""
    number = round(known * count) if 0 < known < 1 else 0
    if not 0 < number < count:
        raise BadInput(
            f"a known fraction of {known} of {count} {what} leaves none known or none new."
        )
    return number


@dataclass(frozen=True)
class Models:
    """The models that are divided.

    Attributes:
      count: m.
      groups: str[m]; None: there are none.
      columns: further facts about them by name, str[m] each; "" is unknown.
      means: float64[m], of each model's values, higher ones better; only splits by strength need
        them.
    """

    count: int
    groups: np.ndarray | None = None
    columns: Mapping[str, np.ndarray] = field(default_factory=dict)
    means: np.ndarray | None = None

    def find_column(self, name: str) -> np.ndarray:
        """Returns the column of a fact about the models, str[m].

        Raises:
          BadInput: there is no such column.
        """
        columns = dict(self.columns)
        if self.groups is not None:
            columns[GROUP] = self.groups
        if name not in columns:
            advice = "give a csv of facts about models: --model_facts=FILE"
            raise BadInput(
                f"{unknown('column of models', name, columns)}"
                if columns
                else f"there are no facts about models, so no {name!r}; {advice}."
            )
        return columns[name]


@dataclass(frozen=True)
class ModelSplit:
    """A way to divide models.

    Attributes:
      kind: "random", "group", "biased", "by", "stronger" or "weaker"; "" is "group" where there
        are groups, else "random".
      name: of "biased", the kind of models that known ones are drawn from; of "by", the column.
    """

    kind: str = ""
    name: str = ""

    @classmethod
    def parse(cls, text: str) -> "ModelSplit":
        """Reads one of `KINDS`.

        Raises:
          BadInput: it is none of them.
        """
        kind, colon, name = text.partition(":")
        if kind in ("", "random", "group", *ENDS) and not colon:
            return cls(kind)
        if kind in ("biased", "by") and name:
            return cls(kind, name)
        raise BadInput(f"{unknown('split of models', text, KINDS)}")

    def __str__(self) -> str:
        """What `parse` reads."""
        return f"{self.kind}:{self.name}" if self.name else self.kind

    def choose_groups(self, models: Models) -> np.ndarray | None:
        """Returns the groups that cross-validation on the known models leaves out whole, str[m];
        None: single models, as they were drawn one by one, or all known ones are of one group.
        """
        one_by_one = self.kind == "random"
        if self.kind == "biased" and "=" not in self.name and models.groups is not None:
            one_by_one = len(set(models.groups[self._select_kind(models)[0]])) == 1
        return None if one_by_one else models.groups

    def _select_kind(self, models: Models) -> tuple[np.ndarray, np.ndarray]:
        """Returns the models of the kind `name`, and those of other kinds, int64 rows each."""

        column, equals, value = self.name.rpartition("=")
        values = models.find_column(column if equals else GROUP)
        matches = values == value
        if not matches.any():
            matches = np.isin(values, fnmatch.filter(values.tolist(), value))
        if not matches.any():
            raise BadInput(f"{unknown('kind of models', value, sorted(set(values) - {''}))}")
        return np.flatnonzero(matches & (values != "")), np.flatnonzero(~matches & (values != ""))

    @property
    def is_drawn(self) -> bool:
        """Whether the seed changes which models are known."""
        return self.kind != "by"

    def describe(self, known: float) -> str:
        """Returns in words which models are known, given their fraction."""
        if self.kind == "biased":
            return f"{known:.0%} of the models of kind {self.name} known, all of other kinds new"
        if self.kind in ENDS:
            end = "best" if self.kind == "stronger" else "worst"
            return f"the {end} {NEW:.0%} of the models new, {known:.0%} of the others known"
        if self.kind == "by":
            return f"the first {known:.0%} of the models by {self.name} known"
        return f"{known:.0%} of the models known"

    def divide(self, models: Models, known: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Returns the known and the new models, int64 rows, ascending.

        Args:
          models: the models.
          known: the fraction of the models, groups or (biased) models of the kind that is known.
          seed: draws the known models; `by:COLUMN` has one division only.

        Raises:
          BadInput: no model, or all of them, would be known; there are no groups, or a fact is
            unknown.
        """
        if self.kind == "group" and models.groups is None:
            raise BadInput("there are no groups of models; another split is needed: random.")
        if self.kind == "biased":
            kind, others = self._select_kind(models)
            count = round(known * len(kind)) if 0 < known <= 1 else 0
            if not count or not len(others):
                raise BadInput(
                    f"biased:{self.name}: {count} known models of {len(kind)} and {len(others)}"
                    " of other kinds; both must be at least 1."
                )
            drawn = np.random.default_rng(seed).permutation(kind)[:count]
            return np.sort(drawn), others
        if self.kind in ENDS:
            return self._divide_by_strength(models, known, seed)
        if self.kind == "by":
            values = models.find_column(self.name)
            rows = np.flatnonzero(values != "")
            order = rows[np.argsort(_make_sortable(values[rows], self.name), kind="stable")]
            count = _count_known(known, len(order), f"models with a {self.name}")
            return np.sort(order[:count]), np.sort(order[count:])
        return split(models.count, None if self.kind == "random" else models.groups, known, seed)

    def _divide_by_strength(
        self, models: Models, known: float, seed: int
    ) -> tuple[np.ndarray, np.ndarray]:
        if models.means is None:
            raise BadInput(f"{self.kind}: the models have no common mean to order them by.")
        groups = np.arange(models.count) if models.groups is None else models.groups
        _, group = np.unique(groups, return_inverse=True)
        best = np.full(int(group.max()) + 1, -np.inf)
        np.maximum.at(best, group, models.means)
        order = np.argsort(best, kind="stable")
        quarter = _count_known(NEW, len(order), "groups of models")
        new = order[-quarter:] if self.kind == "stronger" else order[:quarter]
        rest = np.setdiff1d(order, new)
        count = round(known * len(rest)) if 0 < known <= 1 else 0
        if not count:
            raise BadInput(f"a known fraction of {known} of {len(rest)} models leaves none known.")
        drawn = np.random.default_rng(seed).permutation(rest)[:count]
        return np.flatnonzero(np.isin(group, drawn)), np.flatnonzero(np.isin(group, new))


def _make_sortable(values: np.ndarray, name: str) -> np.ndarray:
    """Returns texts as numbers if all of them are, else as they are: ISO dates sort by time.

    Raises:
      BadInput: some are numbers and others are not.
    """
    converted = [_parse_number(value) for value in values.tolist()]
    numbers = [value for value in converted if value is not None]
    if numbers and len(numbers) < len(values):
        other = values[[value is None for value in converted]][0]
        raise BadInput(f"by:{name}: {str(other)!r} is not a number, but other values are.")
    return np.array(numbers) if numbers else values


def _parse_number(text: str) -> float | None:
    """Returns a finite number, or None if the text is not one."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if np.isfinite(value) else None


def hide_samples(dataset: np.ndarray | None, hide: str, seed: int) -> np.ndarray:
    """Returns the samples on which known models count as not observed, bool[n] (cold start).

    Args:
      dataset: str[n], each sample's data set, or None.
      hide: names of data sets, separated by commas, or the number of data sets that are drawn.
      seed: draws them.

    Raises:
      BadInput: there are no data sets, no such data set, or none would be left.
    """
    if dataset is None:
        raise BadInput(f"--hide={hide}: the samples belong to no data sets.")
    names = sorted(set(dataset.tolist()))
    if hide.isdecimal() and hide not in names:
        chosen = np.random.default_rng([seed, 1]).permutation(names)[: int(hide)].tolist()
        if not 0 < int(hide) < len(names):
            raise BadInput(
                f"--hide={hide}: between 1 and {len(names) - 1} data sets can be hidden."
            )
    else:
        chosen = hide.split(",")
    for name in chosen:
        if name not in names:
            raise BadInput(f"--hide={hide}: {unknown('data set', name, names)}")
    hidden = np.isin(dataset, chosen)
    if hidden.all():
        raise BadInput(f"--hide={hide}: no data set is left for the known models.")
    return hidden


def read_model_facts(path: str | Path, models: list[str]) -> dict[str, np.ndarray]:
    """Reads facts about models from a csv file: the column `model`, and any others.

    Returns: by column, str[m] in the order of `models`; "" for a model that is not in the file.

    Raises:
      BadInput: the file cannot be read, has no column `model` or no other, or names a model twice.
    """
    path = Path(path)
    if not path.is_file():
        raise BadInput(f"{path}: {explain_absence(path)}.")
    table = read_table(path, str(path), {"model": ""})
    names = table.columns
    rows = [dict(zip(names, cells, strict=True)) for _, cells in table.rows]
    if len(names) < 2:
        raise BadInput(f"{path}: needs the column `model` and at least one other.")
    if (name := find_repeat([row["model"] for row in rows])) is not None:
        raise BadInput(f"{path}: model {name!r} occurs twice.")
    by_model = {row["model"]: row for row in rows}
    if not by_model.keys() & set(models):
        raise BadInput(f"{path}: has facts about none of the {len(models)} models.")
    return {
        name: np.array([(by_model.get(model, {}).get(name) or "") for model in models], str)
        for name in names
        if name != "model"
    }
