"""Label-efficient testing without a shift: how many labels give the accuracy of a random tenth?

    python -m launch.data prepare --stream=local25
    python -m experiments.labelling_studies.without_shift run --seconds=1200 [--data=mnist] [--surrogates=heads]
    python -m experiments.labelling_studies.without_shift table

Fashion-MNIST (trained on 4,000 pictures, the 10,000 of the test part are the pool), cifar10_12k
(trained on 4,000, the other 8,000 are the pool): the tested model is a small network, the fixed
ensemble are five others with the same data. MNIST: the checkpoint of a run of FT-prev on local25
(budget small), on the 10,000 pictures of the test split; the ensemble are the other three trials of
that run. All repetitions of the draws have the same model. `run` adds repetitions to
without_shift.jsonl and continues where it was stopped.
"""  # noqa: E501

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from nevis_stream.active_testing.estimators import ESTIMATORS
from nevis_stream.active_testing.labelling.pools import load_pool
from nevis_stream.active_testing.surrogate import SurrogateData
from nevis_stream.configs.tested_models import gather, load_tested_model
from nevis_stream.experiments import engine
from nevis_stream.experiments.labelling_studies.recorded_paths import RecordedPaths
from nevis_stream.experiments.labelling_studies.tested_models import (
    load,
    take_examples,
    train_networks,
)
from nevis_stream.experiments.scripts import call, describe
from nevis_stream.learners.closed_form.patch_features import PatchFeatures
from nevis_stream.seeds import generator, seed_for

# data set: number of samples of the pool
DATA = {"fashion_mnist": 10_000, "cifar10_12k": 8000, "mnist": 10_000}
TRAINING, CALIBRATION, MEMBERS = 4000, 500, 5
REPETITIONS = {"ensemble": 100, "heads": 20}
RULES = {"ensemble": ("expected_loss", "xwed", "rms_loss"), "heads": ("xwed", "rms_loss")}
PLAN = [
    (surrogate, loss, rule)
    for surrogate, rules in RULES.items()
    for loss in ("cross_entropy", "zero_one")
    for rule in rules
]
STEPS = (50, 100, 200, 300, 400, 500, 650, 800, 1000)
RECORDED = RecordedPaths(
    Path(__file__).with_name("without_shift.jsonl"),
    ("data", "surrogate", "loss", "acquisition"),
    STEPS,
)


def train_small_networks(name: str) -> tuple[SurrogateData, np.ndarray]:
    """Returns the data and the pool's labels of a small network and five others.

    The last pictures are the pool, so the training pictures are drawn from the others; in
    cifar10_12k, which is not larger, calibration pictures come from those for training.
    """
    images, labels = (each[-16000:] for each in load(name))
    features = PatchFeatures.fit(images)(images)
    size = DATA[name]
    pool = np.arange(len(labels) - size, len(labels))
    known = generator(0, name).permutation(len(labels) - size)[:TRAINING]
    train, calibration = known[CALIBRATION:], known[:CALIBRATION]
    seed = seed_for(0, name)
    answers = train_networks(
        images, labels, train, calibration, np.concatenate([pool, calibration]), seed, MEMBERS + 1
    )
    predictions, ensemble = answers[0, :size], answers[1:, :size]
    held_out = take_examples(images, labels, calibration, features)
    held_out = type(held_out)(
        held_out.labels, held_out.features, None, answers[0, size:], answers[1:, size:]
    )
    given = take_examples(images, labels, train, features), held_out
    return SurrogateData(predictions, features[pool], None, ensemble, None, *given), labels[pool]


def load_checkpoint(run_dir: Path) -> tuple[SurrogateData, np.ndarray]:
    """Returns the data and the labels of MNIST's test split for a checkpoint of local25."""
    command = [sys.executable, "-m", "launch.run", "--config=ft_prev", "--config.stream=local25"]
    command += ["--config.budget=small", "--config.keep=all", f"--run_dir={run_dir}"]
    call(command)
    (checkpoint,) = (run_dir / "checkpoints").glob("*-mnist")
    pool = load_pool("mnist:test")
    model = load_tested_model(str(checkpoint), pool, None, ())
    return gather(model, pool, ("features", "ensemble")), pool.labels


def run(
    seconds: float = 1200,
    data: Sequence[str] = tuple(DATA),
    surrogates: Sequence[str] = tuple(RULES),
    run_dir: Path = Path("runs/label_ordinary"),
) -> None:
    """Adds repetitions, until `seconds` are over; `run_dir` is that of the run of FT-prev."""
    tests = (
        ((name, *words), number, name, (0, *(step for step in STEPS if step <= DATA[name] // 10)))
        for name in data
        for words in PLAN
        if words[0] in surrogates
        for number in range(REPETITIONS[words[0]])
    )
    RECORDED.add_missing(
        tests,
        lambda name: load_checkpoint(run_dir) if name == "mnist" else train_small_networks(name),
        seconds,
    )


def table() -> None:
    """Prints how many labels reach the median error of a random tenth, in Markdown."""
    print(f"{describe()}\n")
    recorded, rows = RECORDED.read(), []
    for words in ((name, *each) for name in DATA for each in PLAN):
        paths = list(recorded.get(words, {}).values())
        for estimator, needed in _find_needed(paths).items() if paths else ():
            rows.append((*words, estimator, len(paths), needed))
    engine.print_table(
        "data | surrogate | loss | acquisition | estimator | n: | labels needed: | ratio at half:",
        rows,
    )


def _find_needed(paths) -> dict[str, str]:
    """Returns two cells for each estimator: the least number of labels from which on the median
    squared error is at most Monte Carlo's at a tenth of the pool; and the median and the mean
    squared error with half as many labels over Monte Carlo's at a tenth.
    """
    size, risk, variance = (paths[0][name] for name in ("n", "risk", "variance"))
    tenth = int(size) // 10
    steps = [step for step in STEPS if step <= tenth]
    goal = 0.455 * variance * (1 / tenth - 1 / size)
    result = {}
    for estimator in ESTIMATORS:
        values = np.array([[path[f"{estimator}_{step}"] for step in steps] for path in paths])
        if np.isfinite(values).all():
            squares = (values - risk) ** 2
            failed = np.flatnonzero(np.median(squares, axis=0) > goal)
            first = failed[-1] + 1 if len(failed) else 0
            needed = f"{steps[first]} of" if first < len(steps) else "more than"
            half = squares[:, steps.index(tenth // 2)]
            ratios = f"{np.median(half) / goal:.2f}, {half.mean() / goal * 0.455:.2f}"
            result[estimator] = f"{needed} {tenth} | {ratios}"
    return result


if __name__ == "__main__":
    engine.start(run, table, keep_programs=False)
