"""Measures how well methods estimate the score of a new model from K of its evaluations.

python -m experiments.evaluation_studies.acquisition --out=FOLDER [--matrices=mmlu_pro,…] [--methods=…] [--splits=30]
python -m experiments.evaluation_studies.acquisition --out=FOLDER --print_only

Each split draws 60% of the models (or groups) of a matrix as known; the others are new, at most 150
of them. The results go to one record for each matrix, and a run continues where its record ends, so
that several matrices can run at the same time. The tables compare the mean absolute error of the
estimated mean with `REFERENCES`, the best results of prototypes, and with the stratified mean on
the same splits. The matrices come from the folder that NEVIS_STREAM_SHARED names.
"""  # noqa: E501

from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd

from nevis_stream.catalogue import find_shared_directory
from nevis_stream.dynamic_evaluation import method_study
from nevis_stream.dynamic_evaluation.method_study import Matrix, StudyDesign
from nevis_stream.evaluation_cache.facts import read_model_facts
from nevis_stream.experiments.scripts import describe, make_parser, parse_positive
from nevis_stream.queries.samples import SampleFacts, check_weights
from nevis_stream.storage.reading import read_npz

BUDGETS = (5, 10, 20, 50, 100, 200)
KNOWN = 0.6
NEW = 150
FEW_KNOWN = 35  # known models in the row metabench_gsm8k_35
METHODS = ("linear_gaussian", "quadrature+linear_gaussian", "recommended", "strata+mean")
BASELINE = "strata+mean"
# Mean absolute errors at the budgets.
REFERENCES: dict[str, tuple[float, ...] | None] = {
    "alpaca_eval2": (0.038, 0.029, 0.022, 0.0145, 0.0112, 0.0075),
    "mmlu_pro": (0.068, 0.055, 0.044, 0.032, 0.025, 0.0185),
    "nlu_concat15": (0.046, 0.038, 0.031, 0.021, 0.0165, 0.0136),
    "nlu_concat15_datasets": None,  # the mean of the 15 data sets' means
    "metabench_gsm8k": (0.066, 0.046, 0.0315, 0.021, 0.0138, 0.0082),
    "metabench_gsm8k_35": (0.076, 0.055, 0.043, 0.030, 0.0205, 0.013),
}


def main() -> None:
    """Runs what is missing, and prints the tables."""
    parser = make_parser(__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder of the records")
    parser.add_argument(
        "--matrices", default=",".join(REFERENCES), help="names, separated by commas"
    )
    parser.add_argument("--methods", default=",".join(METHODS), help="names, separated by commas")
    parser.add_argument("--splits", type=parse_positive, default=30)
    parser.add_argument("--print_only", action="store_true", help="run nothing")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for name in options.matrices.split(","):
        record = method_study.open_record(options.out / f"{name}.jsonl")
        if not options.print_only:
            matrix, known = load(name)
            design = StudyDesign(options.methods.split(","), BUDGETS, known, options.splits, NEW)
            for _ in method_study.run([matrix], design, record):
                pass
        if len(record):
            print_table(name, pd.DataFrame(method_study.read(record)))
    print(describe())


def load(name: str, model_facts: Path | None = None) -> tuple[Matrix, float]:
    """Returns a matrix, and the fraction of its models or groups that is known.

    Args:
      name: of the file, or with the suffix of one of the rows.
      model_facts: a csv of facts about the models.
    """
    file_name = name.removesuffix("_datasets").removesuffix(f"_{FEW_KNOWN}")
    file = read_npz(find_shared_directory() / "matrices" / f"{file_name}.npz")
    values = file["correct"]
    if "score" in file:
        values = np.where(file["imputed"] == 1, np.nan, file["score"]).astype(np.float32)
    groups, dataset = file.get("group"), file.get("dataset")
    models = file["models"].tolist()
    facts = SampleFacts(values.shape[1])
    if name.endswith("_datasets"):
        weights = check_weights("equal", Counter(dataset.tolist()))
        facts = SampleFacts(values.shape[1], dataset=dataset, dataset_weights=weights)
    known = FEW_KNOWN / len(values) if name.endswith(f"_{FEW_KNOWN}") else KNOWN
    columns = {} if model_facts is None else read_model_facts(model_facts, models)
    return Matrix(name, values, groups, facts, columns), known


def print_table(name: str, rows: pd.DataFrame) -> None:
    """Prints a matrix's errors: means over splits with standard errors, and the comparisons."""
    reference = REFERENCES.get(name)
    errors = rows.pivot_table(index="seed", columns=["method", "budget"], values="accuracy_error")
    print(f"\n### {name}\n")
    heads = " | ".join(f"K = {budget}" for budget in BUDGETS)
    print(
        f"| method | splits | {heads} | to the reference | worst | to the stratified mean |"
        " worst difference | covered |"
    )
    print("|---|---:|" + "---:|" * (len(BUDGETS) + 5))
    for method in dict.fromkeys(rows["method"]):
        part = errors[method].reindex(columns=list(BUDGETS)).dropna()
        if part.empty:
            continue
        means = part.mean()
        cells = " | ".join(
            f"{means[budget]:.4f} ± {part[budget].sem():.4f}" for budget in means.index
        )
        ratios = np.array([means[budget] for budget in BUDGETS]) / (reference or np.nan)
        baseline = errors[BASELINE].loc[part.index] if BASELINE in errors else part * np.nan
        relative = np.exp(np.log(means / baseline.mean()).mean())
        # paired over splits, in standard errors; above 3 the method loses to the stratified mean
        loss = ((part - baseline).mean() / (part - baseline).sem()).max()
        shown = "" if np.isnan(loss) else f"{loss:+.1f}"
        covered = rows[rows["method"] == method]["coverage95"].mean()
        print(
            f"| `{method}` | {len(part)} | {cells} | {np.exp(np.log(ratios).mean()):.2f} |"
            f" {ratios.max():.2f} | {relative:.2f} | {shown} | {covered:.3f} |"
        )
    if reference:
        print(
            "| reference | | "
            + " | ".join(f"{value:g}" for value in reference)
            + " | 1 | 1.15 | | 3 | |"
        )


if __name__ == "__main__":
    from nevis_stream.launch import entry

    entry.guard(main)
