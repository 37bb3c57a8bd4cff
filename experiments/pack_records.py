"""Packs the records of studies, so that they take little room in the repository.

    python -m experiments.pack_records FILE.jsonl ...

FILE.jsonl becomes FILE.jsonl.xz, from which the study's tables are printed as before. A study that
goes on adds new cells to FILE.jsonl again.
"""

from pathlib import Path

from nevis_stream.experiments import engine
from nevis_stream.experiments.study_record import pack


def main(*words: Path) -> None:
    """Packs each file and prints its size."""
    for file in words:
        packed = pack(file)
        print(f"{packed}: {packed.stat().st_size:,} bytes")


if __name__ == "__main__":
    engine.start(main, keep_programs=False)
