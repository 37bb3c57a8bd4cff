"""`launch.label simulate`."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from absl.flags import FlagValues
from rich.table import Table

from nevis_stream.active_testing.labelling.files import STUDY, digest
from nevis_stream.active_testing.labelling.pools import make_absolute
from nevis_stream.active_testing.pool import Pool
from nevis_stream.errors import BadInput
from nevis_stream.experiments.labelling_studies.simulated_labelling import (
    StudySettings,
    run_study,
    write_page,
)
from nevis_stream.experiments.labelling_studies.simulation import HIGHEST
from nevis_stream.launch import command_line, entry
from nevis_stream.launch.command_line import make_console
from nevis_stream.launch.label_commands.surrogate_data import check_flags, load_subject, pool_labels
from nevis_stream.terminal import TerminalProgress


def simulate(_: Sequence[str], values: FlagValues) -> None:
    """Repeats the loop, prints a table and writes a page."""
    check_flags(values, [rule.removesuffix(HIGHEST) for rule in values.rules], STUDY)
    executor = command_line.make_executor(
        values.executor, {"workers": values.workers} if values.workers else {}
    )
    if twice := [rule for rule in values.rules if values.rules.count(rule) > 1]:
        raise BadInput(f"--rules: {twice[0]} is given twice.")
    if not values.rules:
        raise BadInput("--rules=: no rule is given. See --help for their names.")
    if len(values.model) > 1:
        raise BadInput(f"--model: given {len(values.model)} times; simulate takes one model.")
    subject = load_subject(values, values.model, values.surrogate, values.seed)
    labels, (n, classes) = pool_labels(subject), subject.models[0].predictions.shape
    if labels is None:
        raise BadInput(
            f"--pool={values.pool}: has no labels. simulate needs them: an .npz with labels, a"
            " folder with one folder of images per class, or a split of a data set."
        )
    if labels.max() >= classes:
        raise BadInput(f"--pool={values.pool}: has label {labels.max()}; the model has {classes}.")
    if values.labels > n:
        raise BadInput(f"--labels={values.labels}: the pool has {n} samples.")
    losses = Pool.of(subject.predictions[0], values.loss).losses[np.arange(n), labels]
    if np.ptp(losses) == 0:
        raise BadInput(
            f"--model={values.model[0]}: its loss is {losses[0]:g} on every sample, so random"
            " labels make no error to compare with."
        )
    settings = StudySettings(
        make_absolute(values.pool),
        [model.name for model in subject.models],
        digest(subject.pool.ids, subject.predictions),
        values.loss,
        subject.surrogate,
        values.uniform,
        values.labels,
        values.seed,
    )
    entry.stop_at_signals()
    out = Path(values.out)
    with TerminalProgress(f"label {values.pool}") as progress:
        table = run_study(
            settings,
            subject.data,
            labels,
            values.rules,
            values.repetitions,
            out,
            executor,
            progress,
        )
    last = table[table["labels"] == table["labels"].max()]
    shown = Table(
        "rule", "estimator", "labels", "n", "median ratio", "mean ratio", "coverage", "width"
    )
    for row in last.itertuples(index=False):
        numbers = ("–" if np.isnan(each) else f"{each:.3g}" for each in row[4:])
        shown.add_row(*map(str, row[:4]), *numbers)
    make_console().print(shown)
    print(write_page(out, settings, table))
