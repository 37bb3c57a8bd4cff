"""What is odd about a run that can still be used, and whether two runs can be of one stream."""

from nevis_stream.run_directory.ledger import Ledger

SCHEMA_NOTES = {
    1: "its ledger has schema 1, which tells no image sizes: slices by resolution lack it"
}


def ledger_notes(ledger: Ledger) -> list[str]:
    """Returns what a reader should know of a ledger: a cut last line, an older schema."""
    notes = []
    if not ledger.path.read_bytes().endswith(b"\n"):
        notes.append(
            "its last line was cut by a crash and is dropped; the same command goes on from there"
        )
    if (schema := ledger.header["schema"]) in SCHEMA_NOTES:
        notes.append(SCHEMA_NOTES[schema])
    return notes


def contradiction(ledger: Ledger, other: Ledger) -> str:
    """Returns in what two ledgers of one stream digest and protocol tell of different streams;
    empty where they agree.

    Equal digests mean equal tasks, images and splits: where the records differ, one of the
    directories is damaged.
    """
    for name in ("tasks", "events"):
        if ledger.header[name] != other.header[name]:
            return f"announces {ledger.header[name]} {name}, the other {other.header[name]}"
    for kind, facts in (
        ("train", ("order", "task_id", "meta_split")),
        ("predict", ("task_id", "split", "n")),
    ):
        for ours, theirs in zip(ledger.of_kind(kind), other.of_kind(kind), strict=False):
            for fact in facts:
                if ours[fact] != theirs[fact]:
                    return (
                        f"{fact} of {kind} record {ours['event']} is {ours[fact]!r}, the other's"
                        f" {theirs[fact]!r}"
                    )
    return ""
