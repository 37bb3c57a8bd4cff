"""Notes on runs that can be used in spite of a defect, and runs that contradict each other."""

from collections.abc import Mapping, Sequence
from typing import Any

from nevis_stream.analysis.own_files import list_links
from nevis_stream.run_directory.ledger import Ledger
from nevis_stream.run_directory.records import PredictRecord, RecallRecord, TrainRecord
from nevis_stream.storage.reading import read_bytes

SCHEMA_NOTES = {
    1: "its ledger has schema 1, without image sizes: slices by resolution lack this run"
}
_FACTS = {
    TrainRecord: ("order", "task_id", "meta_split"),
    PredictRecord: ("task_id", "split", "n"),
    RecallRecord: ("task_id", "split", "n", "after"),
}
_NAMED = 3  # links that a note names


def run_notes(ledger: Ledger) -> list[str]:
    """Returns what a reader should know about a run: a truncated last line, an old schema,
    links.
    """
    notes = []
    if not read_bytes(ledger.path).endswith(b"\n"):
        notes.append(
            "its last line was cut by a crash and is ignored; the same command continues from there"
        )
    if (schema := ledger.header.schema) in SCHEMA_NOTES:
        notes.append(SCHEMA_NOTES[schema])
    if names := list_links(ledger.run_dir):
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        notes.append(f"symbolic links are not followed: {', '.join(names[:_NAMED])}{more}")
    return notes


def compare_streams(ledger: Ledger, other: Ledger) -> str:
    """Returns how the streams of two ledgers with the same stream digest and protocol differ; empty
    if they agree.

    Equal digests mean equal tasks, images and splits, so if the records differ, one of the
    directories is damaged.
    """
    for name in ("tasks", "events"):
        ours, theirs = getattr(ledger.header, name), getattr(other.header, name)
        if ours != theirs:
            return f"it announces {ours} {name}, the other {theirs}"
    for ours, theirs in zip(ledger.events, other.events, strict=False):
        if ours.kind != theirs.kind:
            return f"event {ours.event} is of kind {ours.kind!r}, the other's {theirs.kind!r}"
        for fact in _FACTS[type(ours)]:
            values = getattr(ours, fact), getattr(theirs, fact)
            if values[0] != values[1]:
                return f"{fact} of event {ours.event} is {values[0]!r}, the other's {values[1]!r}"
    return ""


def differ_in_events(ledgers: Sequence[Ledger]) -> bool:
    """Returns whether a stream's rule chose different events in some of these runs, as far as all
    of them have come.
    """
    keys = [[record.key for record in ledger.events] for ledger in ledgers]
    return any(pair[0] != pair[1] for each in keys for pair in zip(keys[0], each, strict=False))


def find_first_difference(ledger: Ledger, other: Ledger) -> str:
    """Returns the first difference between two ledgers of one config; empty if they are equal or
    one is the beginning of the other.
    """
    pairs = zip(_without_end(ledger), _without_end(other), strict=False)
    for number, (ours, theirs) in enumerate(pairs, start=1):
        if ours != theirs:
            return f"line {number}, {_place_of_difference(ours, theirs)}"
    for longer, shorter in ((ledger, other), (other, ledger)):
        if shorter.complete and len(_without_end(longer)) > len(_without_end(shorter)):
            return f"line {len(_without_end(shorter)) + 1}: {shorter.run_dir} ends before it"
    return ""


def _without_end(ledger: Ledger) -> Sequence[Mapping[str, Any]]:
    records = ledger.records[:-1] if ledger.complete else ledger.records
    return [record.to_json() for record in records]


def _place_of_difference(ours: Any, theirs: Any, path: str = "") -> str:
    """The first place in two different JSON values where they differ, with both values there."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for name in sorted(ours.keys() | theirs.keys()):
            if name not in ours or name not in theirs or ours[name] != theirs[name]:
                inner = f"{path}.{name}" if path else name
                return _place_of_difference(ours.get(name), theirs.get(name), inner)
    if isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for place, pair in enumerate(zip(ours, theirs, strict=True)):
            if pair[0] != pair[1]:
                return _place_of_difference(*pair, f"{path}[{place}]")
    return f"{path}: {_short(ours)} and {_short(theirs)}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
