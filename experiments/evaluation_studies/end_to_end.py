"""Measures dynamic evaluation end to end: learners, caches, then new models at 5% of the samples.

Printed are the MAE of cells, the error of the accuracy, Spearman's correlation, the coverage of
intervals, and the FLOPs spent and saved.

  for run in indep:{0,1,2} ft_prev:{0,1,4,5,6} ft_dynamic:3; do python -m launch.run \\
      --config=${run%:*} --config.seed=${run#*:} --config.stream=five.csv --config.keep=all \\
      --config.search.trials=15 --run_dir=runs/five/${run/:/-}; done
  python -m experiments.evaluation_studies.end_to_end --stream=five.csv --work=work \\
      --new=runs/five/ft_dynamic-3 runs/five/{indep,ft_prev}-?
  python -m experiments.evaluation_studies.end_to_end --work=work --print_only

Every step is a command that a user would give: known runs are imported; `add-model` asks each
predictor of the new run 5% of the samples of its data set, by running its checkpoint; then all
outcomes of the new run are merged in, which shows how good the estimates were; `metrics` and
`launch.report` make the page. The new run has a seed of its own, so that it has no copies of known
models. Finished steps are not repeated, and the tables are printed from the files in the
folder.
"""

import shlex
import shutil
import sys
from pathlib import Path

import pandas as pd

from nevis_stream.dynamic_evaluation.agreement import rank_agreement
from nevis_stream.dynamic_evaluation.evaluation_summary import audit
from nevis_stream.evaluation_cache import EvaluationCache
from nevis_stream.evaluation_cache.additions import read_additions
from nevis_stream.experiments.scripts import call, describe, make_parser
from nevis_stream.storage.study_record import StudyRecord

METHODS = ("recommended", "stratified_mean", "sort_and_search")
FRACTION = "5%"
# 0.75: `recommended` needs five known runs
METRICS = ("--known=0.75", "--seeds=2", "--budgets=16,64,256")


def main() -> None:
    """Does the steps that are not done yet, and prints the tables."""
    parser = make_parser(__doc__)
    parser.add_argument("known", type=Path, nargs="*")
    parser.add_argument("--new", type=Path)
    parser.add_argument(
        "--work", type=Path, required=True, help="folder of the caches and of the report"
    )
    parser.add_argument("--stream", default=None)
    parser.add_argument("--print_only", action="store_true")
    options = parser.parse_args()
    if not options.print_only:
        if not options.known or not options.new:
            parser.error("runs are needed, known ones and --new; or --print_only")
        Steps(options.work, options.stream).all(options.known, options.new)
    *_, (_, machine) = open_record(options.work).items()
    print(machine)
    print_tables(pd.concat(audit_folder(options.work / method) for method in METHODS))


def open_record(work: Path) -> StudyRecord:
    """Opens the record of the steps that have ended, and on which machine, or begins it."""
    return StudyRecord(work / "study.jsonl")


class Steps:
    """The steps, each done once.

    Args:
      work: folder of all caches: `known`, `truth`, and one a method.
      stream: the runs' stream.
    """

    def __init__(self, work: Path, stream: str | None):
        self._work, self._stream = work, [] if stream is None else [f"--stream={stream}"]
        self._record = open_record(work)

    def all(self, known: list[Path], new: Path) -> None:
        """Fills, adds, merges the truth, and makes the report.

        Args:
          known: run directories to learn from.
          new: the run whose predictors are evaluated.
        """
        evaluate, truth = "launch.evaluate", self._work / "truth"
        for run in known:
            self._step(evaluate, "import", run, f"--cache={self._work / 'known'}", *self._stream)
        self._step(evaluate, "import", new, f"--cache={truth}", *self._stream)
        # a copy for each method: cells that one method observed would help the next one
        for method in METHODS:
            cache = self._work / method
            options = (
                f"--model={new}",
                f"--budget={FRACTION}",
                f"--method={method}",
                f"--cache={cache}",
            )
            self._step(
                evaluate,
                "add-model",
                *options,
                *self._stream,
                before=lambda cache=cache: self._afresh(cache),
            )
            self._step(evaluate, "merge", truth, f"--cache={cache}")
        caches = sorted((self._work / METHODS[0]).iterdir())
        for cache in caches:
            self._step(evaluate, "metrics", f"--cache={cache}", *METRICS)
        self._step(
            "launch.report", *known, new, *caches, f"--out={self._work / 'report'}", "--figures"
        )

    def _afresh(self, cache: Path) -> None:
        shutil.rmtree(cache, ignore_errors=True)
        shutil.copytree(self._work / "known", cache)

    def _step(self, *words, before=lambda: None) -> None:
        cell = {"command": shlex.join(map(str, words))}
        if cell in self._record:
            return
        before()
        print(f"$ python -m {cell['command']}", flush=True)
        call([sys.executable, "-m", *words], stdout=None)
        self._record.add(cell, describe())


def audit_folder(folder: Path) -> pd.DataFrame:
    """Returns a row for each addition to the caches of a folder, with the errors of its estimates.

    Args:
      folder: has one cache for each data set, into which the truth has been merged.
    """
    rows = []
    for path in sorted(folder.iterdir()):
        cache = EvaluationCache(path)
        additions = read_additions(path)
        runs = {
            facts["run"]
            for model, facts in cache.models().items()
            if model not in {a.name for a in additions}
        }
        for addition in additions:
            truth = float((cache.matrix([addition.name]) == 1).mean())
            inside = None if addition.low is None else addition.low <= truth <= addition.high
            facts = {"dataset": path.name, "truth": truth, "inside": inside, "runs": len(runs)}
            rows.append(vars(addition) | audit(cache, addition) | facts)
    return pd.DataFrame(rows)


def print_tables(frame: pd.DataFrame) -> None:
    """Prints a row for each data set and method, and each model of the largest data set."""
    print(
        "\n| data set | n | asked | method | MAE | accuracy error | 95% covers | width | Spearman |"
        " FLOPs spent | saved |"
    )
    print("|---|---:|---:|---|---:|---:|---:|---:|---:|---:|---:|")
    for (dataset, method), rows in frame.groupby(["dataset", "method"], sort=False):
        spearman, _ = rank_agreement(rows.accuracy.to_numpy(), rows.truth.to_numpy())
        covers = width = "–"
        if not rows.low.isna().any():
            covers = f"{rows.inside.sum()} of {len(rows)}"
            width = f"{(rows.high - rows.low).mean():.3f}"
        spent, saved = rows.flops_spent.sum(), rows.flops_saved.sum()
        print(
            f"| {dataset} | {rows.samples.iloc[0]} | {rows.asked.iloc[0]} | `{method}` |"
            f" {rows.mae.mean():.4f} | {rows.accuracy_error.mean():.4f} | {covers} | {width} |"
            f" {spearman:.2f} | {spent:.3g} | {saved:.3g} ({saved / (spent + saved):.0%}) |"
        )
    first = frame.iloc[0]
    print(
        f"\nKnown: {first.models} models of {first.runs} runs on each data set; new:"
        f" {len(frame.groupby('name'))} in all."
    )
    largest = frame[
        (frame.method == METHODS[0]) & (frame.samples == frame.samples.max())
    ].sort_values("truth")
    print(
        f"\n| {largest.dataset.iloc[0]}: model | truth | `{METHODS[0]}` | 95% | error | MAE | rank"
        f" of {first.models + 1} |"
    )
    print("|---|---:|---:|---|---:|---:|---:|")
    for row in largest.itertuples():
        print(
            f"| {row.name} | {row.truth:.4f} | {row.accuracy:.4f} | {row.low:.4f} to {row.high:.4f}"
            f" | {row.accuracy - row.truth:+.4f} | {row.mae:.4f} | {row.rank} ({row.rank_low} to"
            f" {row.rank_high}) |"
        )


if __name__ == "__main__":
    from nevis_stream.launch import entry

    entry.guard(main)
