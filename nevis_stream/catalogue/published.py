"""The published results of NEVIS'22 (Appendix N), task by task, as errors."""

import functools

from nevis_stream import catalogue

SOURCE = "NEVIS'22, Appendix N"
BUDGET = "published"
METRICS = {"accuracy": "error_rate", "mAP": "mean_average_precision"}
LEARNERS = ("indep", "ft_prev", "ft_dynamic", "mt")
"""As the learners here are called; the table has Indep, FT-previous, FT-dynamic-kNN and MT."""


@functools.cache
def read_errors() -> dict[str, dict[str, float]]:
    """Returns each learner's test error by task id.

    It is 1 - accuracy, or 1 - mAP, with four decimals, as printed.

    Source: NEVIS'22, Appendix N: 104 of the 106 tasks; IAPRTC-12 and Pascal 2012 are missing there.
    """
    return {
        row["task_id"]: {learner: round(1 - float(row[learner]) / 100, 4) for learner in LEARNERS}
        for row in catalogue.read_carried_table("published")
    }


@functools.cache
def read_facts() -> dict[str, dict[str, str]]:
    """Returns what is published of each of the 106 tasks, by task id: its row of the paper's
    Table L, with the metric of its results and the number of classes.
    """
    metrics = {
        row["task_id"]: METRICS[row["metric"]] for row in catalogue.read_carried_table("published")
    }
    return {
        (task := row["canonical_id"]): row
        | {
            "metric": metrics.get(task, ""),
            "num_classes": catalogue.read_nevis22_datasets()[row["dataset_id"]]["num_classes"],
        }
        for row in catalogue.read_carried_table("nevis22_tasks")
    }


def find_task(task_id: str, dataset_id: str) -> str | None:
    """Returns the published task of a stream's task: the same id, else the first of its data set.

    None where there is neither.
    """
    if task_id in read_errors():
        return task_id
    return next(
        (task for task in read_errors() if read_facts()[task]["dataset_id"] == dataset_id), None
    )


@functools.cache
def read_variants() -> dict[str, dict[str, float | int | str]]:
    """Returns the published error of FT-d on variants of the stream, by the stream's name.

    Returns:
      Dicts with meta_train_tasks, error (mean over the 27 meta-test tasks), std and draws (NaN and
      1 where there was one), learner.

    Source: NEVIS'22, Table 5.
    """
    return {
        row["stream"]: {
            "meta_train_tasks": int(row["meta_train_tasks"]),
            "error": float(row["error"]),
            "std": float(row["std"] or "nan"),
            "draws": int(row["draws"] or 1),
            "learner": row["learner"],
        }
        for row in catalogue.read_carried_table("published_variants")
    }
