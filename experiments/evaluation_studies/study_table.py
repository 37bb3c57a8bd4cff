"""Prints error of the mean and coverage of studies of methods.

    python -m launch.evaluate study MATRIX.npz --out=FOLDER
    python -m experiments.evaluation_studies.study_table FOLDER/study.csv ...

A row is the mean over the splits of one matrix, method and number of observed samples, the error
with its standard error.
"""

from pathlib import Path

import pandas as pd

from nevis_stream.experiments import engine
from nevis_stream.experiments.scripts import describe


def main(*words: Path) -> None:
    """Prints the table."""
    print(f"{describe()}\n")
    rows = []
    for file in words:
        for (matrix, method, budget), part in pd.read_csv(file).groupby(
            ["matrix", "method", "budget"], sort=False
        ):
            error = part["accuracy_error"]
            shown = f"{error.mean():.4f} ± {error.sem():.4f}", f"{part['coverage95'].mean():.3f}"
            rows.append([file.stem, matrix, f"`{method}`", budget, len(part), *shown])
    engine.print_table(
        "study | matrix | method | K: | splits: | error of the mean: | covered:", rows
    )


if __name__ == "__main__":
    engine.start(main)
