"""Crosses policies with predictors, and tests the claims on active evaluation acquisition.

python -m experiments.evaluation_studies.crossing --out=FOLDER [--matrices=mmlu_pro,…] [--policies=…] [--predictors=…]
python -m experiments.evaluation_studies.crossing --out=FOLDER --print_only
python -m experiments.evaluation_studies.crossing --out=FOLDER --hide=4 --matrices=nlu_concat15_datasets [--each=300] …
python -m experiments.evaluation_studies.crossing --out=FOLDER --model_facts=FILE --model_split=biased:weights=open …

The last two are a cold start and a bias, whose files and tables have a name of their own; see
`launch.evaluate study` for these flags. With --each, only that many samples of each data set take
part, the same ones on every split.

The splits are those of `acquisition`. Methods are not cross-validated, as no interval is
needed here, and so cost a fraction of what they cost in a study. A claim compares two policies with
the same predictors, or two predictors with the same policies, by the ratio of their errors of the
mean: geometric means over pairs and budgets on each split. The 95% interval over splits is that of
the corrected resampled t-test (Nadeau & Bengio 2003), since splits share models. The record has a
line for each matrix, split and pair, which is not computed again.
"""  # noqa: E501

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import t

from nevis_stream.dynamic_evaluation import method_study, methods
from nevis_stream.dynamic_evaluation.method_study import Matrix, StudyDesign
from nevis_stream.dynamic_evaluation.model_splits import ModelSplit
from nevis_stream.errors import BadInput
from nevis_stream.experiments.evaluation_studies.acquisition import NEW, load
from nevis_stream.experiments.scripts import describe, make_parser, parse_positive
from nevis_stream.storage.study_record import StudyRecord

BUDGETS = (20, 100)
MATRICES = ("mmlu_pro", "metabench_gsm8k_35", "alpaca_eval2")
POLICIES = (
    *("random", "strata", "clusters_values", "clusters_items"),
    *("uncertainty", "latent_information", "quadrature", "quadrature_local"),
)
PREDICTORS = ("mean", "irt_2pl", "linear_gaussian")
# The first, the second, what the paper finds of their errors (active evaluation acquisition).
CLAIMS = {
    "policies": (
        ("reinforcement", "random", "smaller: reinforcement learning is best everywhere"),
        ("reinforcement", "reinforcement_terminal", "smaller: shaping helps most"),
        ("strata", "random", "as large: random is hard to beat"),
        ("clusters_values", "random", "as large: no clustering variant dominates"),
        ("clusters_items", "random", "as large: no clustering variant dominates"),
        ("clusters_features", "random", "as large: clustering on embeddings is no better"),
        ("combinatorial", "random", "larger: greedy choice is poor"),
        ("uncertainty", "random", "larger: uncertainty is poor"),
        ("latent_information", "random", "larger: information about the latent variable is poor"),
        ("quadrature", "random", "not in the paper"),
        ("quadrature_local", "random", "not in the paper"),
    ),
    "predictors": (
        ("irt_2pl", "mean", "smaller: prediction beats averaging"),
        ("linear_gaussian", "mean", "smaller: prediction beats averaging"),
        ("neural_process", "mean", "smaller: prediction beats averaging"),
        ("neural_process", "irt_2pl", "smaller: a neural process beats item response"),
    ),
}


def main() -> None:
    """Runs what is missing, and prints the tables."""
    parser = make_parser(__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder of the record")
    names = "names, separated by commas"
    parser.add_argument("--matrices", default=",".join(MATRICES), help=names)
    parser.add_argument("--policies", default=",".join(POLICIES), help=names)
    parser.add_argument("--predictors", default=",".join(PREDICTORS), help=names)
    parser.add_argument("--splits", type=parse_positive, default=10)
    parser.add_argument("--hide", default="", help="number of data sets")
    parser.add_argument(
        "--each", type=parse_positive, help="most samples of a data set; default: all"
    )
    parser.add_argument("--model_split", default="", help="how known models are drawn")
    parser.add_argument("--model_facts", type=Path, help="csv of facts about models")
    parser.add_argument("--print_only", action="store_true", help="run nothing")
    options = parser.parse_args()
    record = open_record(options.out)
    matrices = options.matrices.split(",")
    kind = ModelSplit.parse(options.model_split)
    suffix = f"_hide{options.hide}" if options.hide else ""
    suffix += f"_{kind.kind}" if kind.kind else ""
    suffix += f"_{options.each}each" if options.each else ""
    if not options.print_only:
        pairs = list(list_fitting_pairs(options.policies.split(","), options.predictors.split(",")))
        for seed in range(options.splits):  # all matrices have some before one has all splits
            for name in matrices:
                matrix, fraction = load(name, options.model_facts)
                if options.each:
                    if matrix.facts.dataset is None:
                        parser.error(f"--each: no data sets are known for {name}")
                    matrix = thin(matrix, options.each)
                matrix = dataclasses.replace(matrix, name=name + suffix)
                way = {"known": fraction, "model_split": kind, "hide": options.hide}
                run_cells(matrix, pairs, record, seed + 1, **way)
    rows = read_rows(record, [name + suffix for name in matrices])
    for name, part in rows.groupby("matrix", sort=False):
        print_errors(str(name), part)
    print_claims(rows)
    print(describe())


def thin(matrix: Matrix, each: int) -> Matrix:
    """Returns a matrix with at most some samples of each data set, drawn at random."""
    random, dataset = np.random.default_rng(0), matrix.facts.dataset
    drawn = [
        random.permutation(np.flatnonzero(dataset == name))[:each] for name in np.unique(dataset)
    ]
    columns = np.sort(np.concatenate(drawn))
    facts = matrix.facts.take(columns)
    return dataclasses.replace(matrix, values=matrix.values[:, columns], facts=facts)


def list_fitting_pairs(policies: Sequence[str], predictors: Sequence[str]) -> Iterator[str]:
    """Yields the pairs that fit; a name that is unknown is an error."""
    for policy in policies:
        for predictor in predictors:
            try:
                methods.make_pair(f"{policy}+{predictor}")
            except BadInput as error:
                if "needs" not in str(error):
                    raise
            else:
                yield f"{policy}+{predictor}"


def open_record(folder: Path) -> StudyRecord:
    """Opens the record of a crossing, or begins it."""
    return StudyRecord(folder / "study.jsonl", {"budgets": BUDGETS, "new": NEW})


def run_cells(
    matrix: Matrix, pairs: Iterable[str], record: StudyRecord, splits: int, **way
) -> None:
    """Adds what is missing of the first splits of a matrix.

    Args:
      matrix: the values to study.
      pairs: POLICY+PREDICTOR each.
      record: of the crossing.
      splits: their number.
      way: of `StudyDesign`, how models are divided.
    """
    pairs = tuple(pairs)
    design = StudyDesign(pairs, BUDGETS, seeds=splits, new=NEW, cross_validated=False, **way)
    for _ in method_study.run([matrix], design, record):
        pass


def read_rows(record: StudyRecord, names: Sequence[str]) -> pd.DataFrame:
    """Returns the rows of some matrices, with the policy and the predictor of each."""
    rows = pd.DataFrame(record.rows())
    rows = rows[rows["matrix"].isin(names)]
    pairs = rows["method"].str.split("+", expand=True)
    return rows.assign(policy=pairs[0], predictor=pairs[1], error=rows["accuracy_error"])


def print_errors(name: str, rows: pd.DataFrame) -> None:
    """Prints the errors of a matrix at each budget: policies × predictors, with standard errors."""
    for budget, part in rows.groupby("budget"):
        grouped = part.groupby(["policy", "predictor"], sort=False)["error"]
        means, spread = grouped.mean().unstack(), grouped.sem().unstack()
        print(f"\n`{name}`, K = {budget}, {part['seed'].nunique()} splits\n")
        print("| policy | " + " | ".join(f"`{predictor}`" for predictor in means.columns) + " |")
        print("|---|" + "---:|" * len(means.columns))
        for policy, row in means.iterrows():
            cells = [
                "" if np.isnan(mean) else f"{mean:.4f} ± {spread.loc[policy, predictor]:.4f}"
                for predictor, mean in row.items()
            ]
            print(f"| `{policy}` | " + " | ".join(cells) + " |")


def print_claims(rows: pd.DataFrame) -> None:
    """Prints the ratio of errors, and its interval, of each claim on each matrix."""
    # quadrature chooses samples that do not represent the others: their plain mean is far off
    chosen = rows["policy"].isin(["quadrature", "quadrature_local", "sparse_anchors"])
    rows = rows[~chosen | (rows["predictor"] != "mean")]
    names = list(dict.fromkeys(rows["matrix"]))
    print("\n| errors of | over those of | in the paper | " + " | ".join(names) + " |")
    print("|---|---|---|" + "---|" * len(names))
    for kind, claims in CLAIMS.items():
        column, other = ("policy", "predictor")[:: 1 if kind == "policies" else -1]
        for first, second, finding in claims:
            cells = [
                format_interval(rows[rows["matrix"] == name], column, other, first, second)
                for name in names
            ]
            if any(cells):
                print(f"| `{first}` | `{second}` | {finding} | " + " | ".join(cells) + " |")


def format_interval(rows: pd.DataFrame, column: str, other: str, first: str, second: str) -> str:
    """Returns the ratio of errors and its 95% interval over splits; "" if one of both is missing.

    Args:
      rows: the results of one matrix.
      column, other: "policy" and "predictor", what is compared first.
      first, second: values of the column.
    """
    errors = rows.pivot_table(index=["seed", other, "budget"], columns=column, values="error")
    if first not in errors or second not in errors:
        return ""
    logs = np.log(errors[first] / errors[second]).dropna()
    by_split = logs.groupby("seed").mean()
    count, mean = len(by_split), by_split.mean()
    if count < 2:
        return f"{np.exp(mean):.2f} (n = {count})" if count else ""
    spread = np.sqrt((1 / count + rows["new_per_known"].mean()) * by_split.var(ddof=1))
    half = t.ppf(0.975, count - 1) * spread
    ends = np.exp([mean - half, mean + half])
    return f"{np.exp(mean):.2f} ({ends[0]:.2f} to {ends[1]:.2f}; n = {count})"


if __name__ == "__main__":
    from nevis_stream.launch import entry

    entry.guard(main)
