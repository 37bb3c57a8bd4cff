"""The account of additions to a cache, a line each in `additions.jsonl` of its directory."""

import json
import types
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, get_args

from nevis_stream.errors import DamagedCache
from nevis_stream.storage import append_line, write_file

LEDGER = "additions.jsonl"
KINDS = ("model", "samples")


@dataclass(frozen=True)
class Addition:
    """The account of one addition.

    Attributes:
      kind: "model" or "samples".
      name: the model's id, or how many samples.
      method, budget, seed: how it was evaluated.
      models, samples: the size of the cache that the method saw.
      asked: cells that were observed for it, those that the cache had before included.
      accuracy, low, high: of a model: its estimate over all samples, with a 95% interval; null
        where there is none.
      rank, rank_low, rank_high: of a model: its place among the known ones by accuracy, 1 is the
        best.
      reason: why a model has no interval, where it has none.
      flops_spent: of the observed cells, those that the cache had before at what an answer costs
        where many are asked, and of the method; null where an answer's cost is unknown.
      flops_saved: what observing every cell would have cost, less what was spent; below 0 where the
        method, or asking few at a time, cost more than that; null likewise.
      flops_method: what the method computed itself, part of what was spent: fit, cross-validation,
        selection and prediction; of models that were added together, one model's share. Null in
        accounts of earlier versions, which left it out.
      fit: the key of the stored fit (see `fits`) that the method used.
    """

    kind: str
    name: str
    method: str
    budget: int
    seed: int
    models: int
    samples: int
    asked: int
    accuracy: float | None = None
    low: float | None = None
    high: float | None = None
    rank: int | None = None
    rank_low: int | None = None
    rank_high: int | None = None
    flops_spent: float | None = None
    flops_saved: float | None = None
    reason: str | None = None
    flops_method: int | None = None
    fit: str | None = None


def append(directory: Path, addition: Addition) -> None:
    """Appends one account, synced."""
    append_line(directory / LEDGER, _line(addition))


def write(directory: Path, additions: Sequence[Addition]) -> None:
    """Writes all accounts of a cache, in the place of those that it had."""
    write_file(
        directory / LEDGER, "".join(f"{_line(addition)}\n" for addition in additions).encode()
    )


def read_additions(directory: Path) -> list[Addition]:
    """Returns the additions to a cache, in the order in which they were made; a line that a kill
    cut is left out.

    Raises:
      DamagedCache: a line is no account; the message names it.
    """
    additions = []
    for addition in examined(directory):
        if isinstance(addition, str):
            raise DamagedCache(f"{addition}; remove the line.")
        additions.append(addition)
    return additions


def examined(directory: Path) -> Iterator[Addition | str]:
    """Yields, of each line, the addition; or, where it is no account, what is wrong, with file and
    line.
    """
    path = directory / LEDGER
    data = path.read_bytes() if path.exists() else b""
    for number, line in enumerate(data[: data.rfind(b"\n") + 1].split(b"\n")[:-1], start=1):
        try:
            yield _account(json.loads(line))
        except (TypeError, ValueError) as error:
            yield f"{path}, line {number}: no account of an addition ({error})"


def merge_additions(target: Path, source: Path) -> None:
    """Appends to a cache's account what another's has more; after `EvaluationCache.merge`. Again
    appends nothing.

    Raises:
      DamagedCache: a line of either is no account.
    """
    here = read_additions(target)
    for addition in read_additions(source):
        if addition not in here:
            append(target, addition)


def _line(addition: Addition) -> str:
    return json.dumps(asdict(addition), sort_keys=True)


def _account(values: dict[str, Any]) -> Addition:
    """Returns an addition of JSON values; ValueError or TypeError where one is missing or cannot
    be.
    """
    account = Addition(**values)
    for each in fields(Addition):
        value, valid = getattr(account, each.name), get_args(each.type) or (each.type,)
        if isinstance(value, bool) or not isinstance(
            value, (*valid, int) if float in valid else valid
        ):
            wanted = " or ".join(
                "null" if kind is types.NoneType else kind.__name__ for kind in valid
            )
            raise ValueError(f"{each.name} is {value!r}, not {wanted}")
    if account.kind not in KINDS:
        raise ValueError(f"kind is {account.kind!r}, not one of {', '.join(KINDS)}")
    if account.kind == "samples" and not account.name.split(" ")[0].isdecimal():
        raise ValueError(f"name is {account.name!r}, not how many samples")
    return account
