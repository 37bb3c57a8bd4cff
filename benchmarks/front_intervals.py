"""Differences between the points of the front and FT-d's, from the recorded tables in RESULTS.md.

  python -m benchmarks.front_intervals

The tables of tasks in RESULTS.md contain the mean error over three seeds, in thousandths. Prints each
point of the front minus FT-d with a paired interval over the tasks; as the errors of single runs are
not in the tables, the intervals leave out the noise that all tasks of a run share. FT-d at 10,000
steps has no table of tasks on record.
"""  # noqa: E501

from pathlib import Path

import numpy as np

from nevis_stream.analysis.bootstrap import over_tasks
from nevis_stream.streams.rows import stream_rows

RESULTS = Path(__file__).with_name("RESULTS.md")
FT_D = {"FT-d, 2 × 480 steps": "## Learners on local25", "FT-d, 2,400 steps": "### Trained longer"}
FRONT = "## The front on local25"


def table_of_tasks(text: str, heading: str) -> dict[str, dict[str, float]]:
    """Returns the first table of tasks after a heading: by column and task, the error."""
    lines = iter(text.partition(f"\n{heading}\n")[2].splitlines())
    heads = next(cells(line) for line in lines if line.startswith("| task |"))
    next(lines)
    errors: dict[str, dict[str, float]] = {}
    for line in lines:
        if not line.startswith("|"):
            break
        task, *values = cells(line)
        for head, value in zip(heads[1:], values, strict=True):
            if value.replace(".", "", 1).isdigit():
                errors.setdefault(head, {})[task] = float(value)
    return errors


def cells(line: str) -> list[str]:
    """Returns the cells of a row."""
    return [cell.strip() for cell in line.strip().removeprefix("|").removesuffix("|").split("|")]


def main() -> None:
    """Prints the table."""
    text = RESULTS.read_text()
    tasks = [row["task_id"] for row in stream_rows("local25")[1]]
    print(
        "| difference in error over all tasks | mean | 95% interval, paired over tasks | tasks"
        " better / worse |\n|---|---:|---|---:|"
    )
    for name, heading in FT_D.items():
        recorded = table_of_tasks(text, heading)
        theirs = next(errors for head, errors in recorded.items() if head.startswith("ft_dynamic"))
        for point, ours in table_of_tasks(text, FRONT).items():
            a, b = (np.asarray([[side[task]] for task in tasks]) for side in (ours, theirs))
            found, difference = over_tasks(a, b), a - b
            print(
                f"| {point} − {name} | {found.estimate:+.4f} | {found.low:+.4f} to"
                f" {found.high:+.4f} | {(difference < 0).sum()} / {(difference > 0).sum()} |"
            )


if __name__ == "__main__":
    main()
