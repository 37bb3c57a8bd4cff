"""Run directories in folders: seeds of one run, and the values of a sweep."""

from pathlib import Path


def run_dirs(path: Path, marker: str = "ledger.jsonl") -> list[Path]:
    """Returns the run directories that a path stands for.

    Args:
      path: a run directory, or a folder of several seeds (FOLDER/seed-0), of a sweep
        (FOLDER/VALUE), or of a sweep of several seeds (FOLDER/VALUE/seed-0).
      marker: the file that makes a directory a run directory.

    Returns:
      The path itself if it is a run directory or contains none; else those in it, sorted.
    """
    if (path / marker).exists():
        return [path]
    inside = [file.parent for pattern in ("*", "*/*") for file in path.glob(f"{pattern}/{marker}")]
    return sorted(inside) or [path]
