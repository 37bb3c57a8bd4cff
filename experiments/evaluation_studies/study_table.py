"""Prints error of the mean and coverage of studies of methods.

    python -m launch.evaluate study MATRIX.npz --out=FOLDER
    python -m experiments.evaluation_studies.study_table FOLDER/study.csv ...

A row is the mean over the splits of one matrix, method and number of observed samples, the error
with its standard error.
"""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from nevis_stream.experiments.scripts import describe


def main(files: Sequence[str]) -> None:
    """Prints the table."""
    print(f"{describe()}\n\n| study | matrix | method | K | splits | error of the mean | covered |")
    print("|---|---|---|---:|---:|---:|---:|")
    for file in map(Path, files):
        rows = pd.read_csv(file)
        for (matrix, method, budget), part in rows.groupby(
            ["matrix", "method", "budget"], sort=False
        ):
            error = part["accuracy_error"]
            print(
                f"| {file.stem} | {matrix} | `{method}` | {budget} | {len(part)} |"
                f" {error.mean():.4f} ± {error.sem():.4f} | {part['coverage95'].mean():.3f} |"
            )


if __name__ == "__main__":
    from nevis_stream.launch import entry

    entry.start(main, words="STUDY.csv ...")
