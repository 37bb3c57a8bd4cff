"""The names of adaptive streams: "adaptive:POOL,key=value,…"."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from nevis_stream.errors import BadInput, unknown
from nevis_stream.streams.rows import (
    PARTIAL,
    is_stream,
    list_dataset_rows,
    read_fixed_rows,
)
from nevis_stream.vocabulary import ADAPTIVE

DESIGNS = ("path", "hierarchical")
HELP = (
    "adaptive:POOL,key=value,…: an adaptive stream, e.g. adaptive:pico_digits,rule=random"
    " (docs/dynamic-benchmarks.md)"
)


@dataclass(frozen=True)
class Specification:
    """What determines an adaptive stream.

    Attributes:
      pool: data sets of the catalogue, joined by "+"; or the name or csv of a stream, each of whose
        data sets is taken once.
      rule: name of a rule, or module:ATTRIBUTE of one's own.
      rounds: how often each data set is trained on.
      samples: labels of the first training set, and labels that each round adds.
      candidates: samples among which a data set's rounds collect.
      design: "path" or "hierarchical".
      width: rounds of each inner benchmark (hierarchical).
      across: whether a round's labels are divided over the data sets as the rule sees fit, instead
        of equally.
      cache: folder of evaluation caches, one for each data set; for rules with `needs_cache`.
    """

    pool: str
    rule: str = "uniform_mixture"
    rounds: int = field(default=4, metadata={"least": 2})
    samples: int = field(default=100, metadata={"least": 1})
    candidates: int = field(default=1000, metadata={"least": 2})
    design: str = "path"
    width: int = field(default=3, metadata={"least": 2})
    across: bool = False
    cache: str = ""

    @property
    def name(self) -> str:
        """The name of the stream, in which only values that differ from the defaults occur."""
        differing = [
            f"{key.name}={_format_value(getattr(self, key.name))}"
            for key in _list_keys().values()
            if getattr(self, key.name) != key.default
        ]
        return ",".join([f"{ADAPTIVE}{self.pool}", *differing])

    def check_room(self, owner: str, available: int, noun: str) -> None:
        """Checks that all rounds together find new samples in a data set.

        Args:
          owner: what the samples are of, for the message.
          available: number of samples.
          noun: what the message calls them.

        Raises:
          BadInput: there are fewer; the message says what would do.
        """
        if available < self.rounds * self.samples:
            least = f"samples={available // self.rounds}"
            if available >= 2 * self.samples:
                least += f" or rounds={available // self.samples}"
            raise BadInput(
                f"stream {self.name!r}: {owner} has {available} {noun}, and rounds={self.rounds} of"
                f" samples={self.samples} need {self.rounds * self.samples}. At most {least} is"
                " possible."
            )

    @property
    def rule_text(self) -> str:
        """What determines the next event, for the digest: the rule, ": ", and all else."""
        kind = self.design + (f" of width {self.width}" if self.design == "hierarchical" else "")
        return (
            f"{self.rule}: {kind}, {self.rounds} rounds of {self.samples} samples, out of"
            f" {self.candidates} candidates per data set"
            f"{', divided over the data sets by the rule' if self.across else ''}"
        )


def _list_keys() -> Mapping[str, dataclasses.Field]:
    return {key.name: key for key in dataclasses.fields(Specification)[1:]}


def _format_value(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def read_specification(name: str) -> Specification:
    """Reads the name of an adaptive stream.

    Raises:
      BadInput: no pool, an unknown key, or an invalid value; the message lists the valid ones.

    >>> read_specification("adaptive:pico_digits,rounds=3,across=true").rounds
    3
    """
    pool, *words = name.removeprefix(ADAPTIVE).split(",")
    if not pool:
        raise BadInput(f"stream {name!r}: the pool is missing. Use {HELP}.")
    values: dict[str, Any] = {}
    for word in words:
        key, equals, text = word.partition("=")
        if key not in _list_keys() or not equals:
            raise BadInput(f"stream {name!r}: {unknown('key', key, _list_keys())} Use {HELP}.")
        if key in values:
            raise BadInput(f"stream {name!r}: {key} occurs twice.")
        values[key] = _parse_value(name, _list_keys()[key], text)
    specification = Specification(pool, **values)
    if specification.design not in DESIGNS:
        raise BadInput(f"stream {name!r}: {unknown('design', specification.design, DESIGNS)}")
    if "width" in values and specification.design != "hierarchical":
        raise BadInput(f"stream {name!r}: width needs design=hierarchical.")
    rounds, width = specification.rounds, specification.width
    if specification.design == "hierarchical" and rounds % width:
        raise BadInput(
            f"stream {name!r}: rounds={rounds} does not consist of whole blocks of width={width}."
            f" Use rounds={rounds - rounds % width + width}, or another width."
        )
    specification.check_room("it", specification.candidates, "candidates")
    return specification


def _parse_value(name: str, key: dataclasses.Field, text: str) -> Any:
    if key.type is bool or key.type == "bool":
        if text not in ("true", "false"):
            raise BadInput(f"stream {name!r}: {key.name}={text}; valid: true, false.")
        return text == "true"
    if key.type is int or key.type == "int":
        least = key.metadata["least"]
        if not text.isdecimal() or int(text) < least:
            raise BadInput(
                f"stream {name!r}: {key.name}={text}; it must be a whole number, {least} or more."
            )
        return int(text)
    return text


def list_pool_rows(specification: Specification) -> tuple[str, list[dict[str, str]]]:
    """Returns the origin of the pool's rows and one row for each of its data sets, as
    `streams.rows.read_fixed_rows` does.

    Raises:
      BadInput: an unknown stream or data set.
    """
    pool = specification.pool
    if is_stream(pool):
        origin, rows = read_fixed_rows(pool)
        first: dict[str, dict[str, str]] = {}
        for row in rows:
            first.setdefault(row["dataset_id"], row)
        return origin, list(first.values())
    return list_dataset_rows(pool.removesuffix(PARTIAL).split("+"))
