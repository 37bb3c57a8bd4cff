"""What an import understood, and what it left out: printed once, and kept in the cache."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass

from nevis_stream.evaluation_cache.index import Unsound
from nevis_stream.storage.reading import parse_json

NAMES = 5  # of models that a line lists


@dataclass(frozen=True)
class LeftOut:
    """Something that was not imported.

    Attributes:
      reason: what it is and why it was left out, for example "columns of summaries".
      count: how many.
      example: the first of them, with its place.
    """

    reason: str
    count: int
    example: str = ""

    def line(self) -> str:
        """Returns a line for people."""
        example = f"{': ' if self.count == 1 else ', for example '}{self.example}"
        return f"left out: {self.reason} ({self.count:,}){example if self.example else ''}"


@dataclass(frozen=True)
class Imported:
    """What was read.

    Attributes:
      source: the name of the file or directory.
      understood: lines for people: models, samples, metrics with direction and range.
      left_out: what was not imported.
    """

    source: str
    understood: tuple[str, ...]
    left_out: tuple[LeftOut, ...] = ()

    def lines(self) -> list[str]:
        """Returns all lines for people."""
        return [*self.understood, *(each.line() for each in self.left_out)]

    def to_text(self) -> str:
        """Returns this as JSON."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_text(cls, text: str) -> "Imported":
        """Reads what `to_text` wrote.

        Raises:
          Unsound: it is something else.
        """
        try:
            fields = parse_json(text)
            left_out = tuple(LeftOut(**each) for each in fields["left_out"])
            return cls(fields["source"], tuple(fields["understood"]), left_out)
        except (KeyError, TypeError, ValueError) as error:
            raise Unsound(f"the record of an import: {error}") from None


def list_names(names: Iterable[str]) -> str:
    """Returns names for a line, for example "a, b, c"; of many names the first ones."""
    names = list(names)
    rest = f" and {len(names) - NAMES:,} more" if len(names) > NAMES else ""
    return f"{', '.join(names[:NAMES])}{rest}"
