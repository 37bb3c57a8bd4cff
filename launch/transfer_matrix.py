"""Trains every task from every earlier task's independent predictor: the transfer matrix of
NEVIS'22, Appendix J.

  python -m launch.run --config=indep --run_dir=runs/indep
  python -m launch.transfer_matrix --indep=runs/indep --out=runs/transfer
  python -m launch.transfer_matrix --indep=runs/indep --sources=pico_digits,pico_faces --out=runs/transfer
  python -m launch.transfer_matrix --indep=runs/indep --dry_run
  python -m launch.report runs/indep runs/transfer --out=report

Writes OUT/matrix.csv and OUT/matrix.json, from which launch.report draws a heat map; each row of
the matrix has a run directory, OUT/from-TASK. The same command continues an interrupted matrix. For
the paper's 106 tasks, it trains 5,565 tasks with 16 trials each, in addition to the run of indep.
"""  # noqa: E501

import functools
from pathlib import Path

from absl import flags

from nevis_stream.cost.meter import format_engineering
from nevis_stream.launch import command_line, entry

_INDEP = flags.DEFINE_string("indep", None, "Directory of a complete run of indep.")
_OUT = flags.DEFINE_string("out", None, "Directory to write the matrix to.")
_SOURCES = flags.DEFINE_list(
    "sources",
    None,
    "Ids of the tasks to start from, separated by commas; default: all but the last.",
)
_STREAM = command_line.define_recorded_stream()
command_line.define_data_dir()
_DRY_RUN = command_line.define_dry_run(
    "the number of rows and trainings, and the FLOPs they will cost"
)
_CHECKPOINT = command_line.define_checkpoint_seconds()
_EXECUTOR = command_line.define_executor()


def main(_):
    """Runs the missing rows of the matrix, or prints what they would cost."""
    if not _INDEP.value:
        entry.fail("--indep is missing: the directory of a complete run of indep.")
    if not (_OUT.value or _DRY_RUN.value):
        entry.fail("--out is missing: the directory of the matrix, for example runs/transfer.")
    from nevis_stream.analysis.points import sum_phase_flops
    from nevis_stream.configs.transfer import TransferMatrixRun

    matrix = TransferMatrixRun(
        Path(_INDEP.value), Path(_OUT.value or "."), _SOURCES.value, _STREAM.value
    )
    tasks = list(matrix.trained)
    pairs = sum(len(tasks) - 1 - tasks.index(source) for source in matrix.sources)
    if _DRY_RUN.value:
        trials, flops = matrix.config.search.trials, sum_phase_flops(matrix.ledger)
        each = sum(flops.values()) / len(tasks)
        print(
            f"{len(matrix.sources)} rows with {pairs} tasks of {trials} trials:"
            f" {pairs * trials} trainings, about {format_engineering(pairs * each)} FLOPs if a task"
            " costs as much as the average task of the run of indep. Nothing was run."
        )
        return
    from nevis_stream.configs.run_config import run_config_once

    run_row = functools.partial(
        run_config_once,
        checkpoint_seconds=_CHECKPOINT.value,
        executor=_EXECUTOR.build(),
        devices=_EXECUTOR.devices.value,
    )
    _EXECUTOR.check_devices()
    entry.use_compilation_cache()
    entry.stop_at_signals()
    print(f"{len(matrix.sources)} rows, {pairs} tasks to train")
    frame = matrix.run(run_row)
    print(
        f"mean gain {100 * frame['gain'].mean():+.2f} points over {len(frame)} pairs of tasks:"
        f" {matrix.out / 'matrix.csv'}"
    )
    report = f"python -m launch.report {_INDEP.value} {matrix.out} --out=report"
    print(entry.as_typed(f"next, for the heat map: {report}"))


if __name__ == "__main__":
    entry.start(main)
