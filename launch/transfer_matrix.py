"""Trains every task from every earlier task's independent predictor: the transfer matrix of
NEVIS'22, Appendix J.

  python -m launch.run --config=indep --run_dir=runs/indep
  python -m launch.transfer_matrix --indep=runs/indep --out=runs/transfer
  python -m launch.transfer_matrix --indep=runs/indep --sources=pico_digits,pico_faces --out=runs/transfer
  python -m launch.transfer_matrix --indep=runs/indep --dry_run
  python -m launch.report runs/indep runs/transfer --out=report

Writes OUT/matrix.csv and OUT/matrix.json, which launch.report draws; each row is a run directory
OUT/from-TASK. The same command continues a stopped one. If the run's stream was a csv, name
it: --stream=my_stream.csv. For the paper's 106 tasks these are 5,565 learner runs of 16 trials
and the 106 of Indep.
"""  # noqa: E501

from pathlib import Path

from absl import flags

from launch import entry

_INDEP = flags.DEFINE_string("indep", None, "Directory of a complete run of indep.")
_OUT = flags.DEFINE_string("out", None, "Directory of the matrix.")
_SOURCES = flags.DEFINE_list(
    "sources", None, "Ids of the tasks to start from; default: all but the last."
)
_STREAM = flags.DEFINE_string(
    "stream", None, "The run's stream; default: the name that the run has. For a csv, its path."
)
_DRY_RUN = flags.DEFINE_bool(
    "dry_run", False, "Print rows, trainings and the FLOPs they will cost; run nothing."
)


def main(_):
    """Runs what is missing of the matrix, or prints what that is."""
    if not _INDEP.value:
        entry.fail("--indep is missing: the directory of a complete run of indep.")
    if not (_OUT.value or _DRY_RUN.value):
        entry.fail("--out is missing: the directory of the matrix, for example runs/transfer.")
    from experiments.transfer import TransferMatrix
    from nevis_stream.analysis.points import phase_flops
    from nevis_stream.cost.engineering import engineering

    matrix = TransferMatrix(
        Path(_INDEP.value), Path(_OUT.value or "."), _SOURCES.value, _STREAM.value
    )
    tasks = list(matrix.trained)
    runs = sum(len(tasks) - 1 - tasks.index(source) for source in matrix.sources)
    if _DRY_RUN.value:
        trials, flops = matrix.config.search.trials, phase_flops(matrix.ledger)
        each = sum(flops.values()) / len(tasks)
        print(
            f"{len(matrix.sources)} rows, {runs} learner runs of {trials} trials: {runs * trials}"
            f" trainings, about {engineering(runs * each)} FLOPs at the average cost of Indep's"
            " tasks. Nothing was run."
        )
        return
    from launch.one_run import run_config_once

    entry.use_compilation_cache()
    entry.stop_at_signals()
    print(f"{len(matrix.sources)} rows, {runs} learner runs")
    frame = matrix.run(run_config_once)
    print(
        f"mean gain {100 * frame['gain'].mean():+.2f} points over {len(frame)} pairs:"
        f" {matrix.out / 'matrix.csv'}"
    )
    report = f"python -m launch.report {_INDEP.value} {matrix.out} --out=report"
    print(entry.as_typed(f"heat map and best sources: {report}"))


if __name__ == "__main__":
    entry.start(main)
