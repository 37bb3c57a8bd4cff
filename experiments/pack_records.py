"""Packs the records of studies, so that they take little room in the repository.

    python -m experiments.pack_records FILE.jsonl ...

FILE.jsonl becomes FILE.jsonl.xz, from which the study's tables are printed as before. A study that
goes on adds new cells to FILE.jsonl again.
"""

from collections.abc import Sequence
from pathlib import Path

from nevis_stream.experiments.study_record import pack


def main(files: Sequence[str]) -> None:
    """Packs each file and prints its size."""
    for name in files:
        packed = pack(Path(name))
        print(f"{packed}: {packed.stat().st_size:,} bytes")


if __name__ == "__main__":
    from nevis_stream.launch import entry

    entry.start(main, words="FILE.jsonl")
