"""Records the results of commands on small problems, and compares two records.

  python -m benchmarks.equal_results record --out=before.json [--only='runs/ft_*'] [--tree=DIR]
  python -m benchmarks.equal_results compare before.json after.json [--only='runs/*']

A refactoring must change none of these numbers: the errors, curves, hyper-parameters and FLOPs of
every trial of every learner on three tasks of `pico`, those of pre-training, the estimates of every
method of dynamic evaluation on three matrices, and those of label-efficient testing. Commands run
in their own processes, so the same script records the code before and after a change. If a change
renames a flag, change it in the tables below.

The last digits depend on the processor, on its cores that XLA uses, and on the version of JAX, so
commands run on one core of the CPU, the first that this process may use, and both records must be
made on one machine. The folder that NEVIS_STREAM_SHARED names holds the matrices.
"""

import csv
import fnmatch
import importlib.metadata
import json
import math
import os
import platform
import resource
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nevis_stream.errors import BadInput
from nevis_stream.experiments.scripts import make_parser
from nevis_stream.launch import entry

# -- Commands; words in {braces} are placeholders ----------------------------------------------
RUN = (
    "launch.run --config={config} --config.stream={three} "
    "--config.train.steps=16 --config.train.validate_every=4 --notensorboard --run_dir={out}"
)
PRETRAIN = (
    "launch.pretrain --config=indep --config.train.steps=16 "
    "--config.train.validate_every=4 --out={out}"
)
STUDY = "launch.evaluate study --methods={methods} --budgets=8,16,32 --seeds=2 --out={out}"  # FILES
TEST = (  # every estimator and acquisition function
    "launch.label simulate --model={run}/checkpoints/0000-pico_textures --pool=pico_textures:test "
    "--stream={three} --surrogate={surrogate} --repetitions=2 --labels=40 --out={out} "
    "--rules=bald,expected_loss,model_entropy,rms_loss,surrogate_entropy,uniform,xwed,xwed!"
)
COLUMNS = "order,year,task_id,dataset_id,meta_split\n"
STREAMS = {
    "three": (
        "1,1998,pico_textures,pico_textures,train\n"
        "2,2001,pico_coins,pico_coins,train\n"
        "3,2005,pico_faces,pico_faces,test\n"
    ),
    # Several labels per image, and a data set that is repeated.
    "labels": (
        "1,2010,pico_mosaic,pico_mosaic,train\n"
        "2,2011,pico_textures,pico_textures,train\n"
        "3,2012,pico_mosaic_2,pico_mosaic,test\n"
    ),
    "one": "1,2001,pico_coins,pico_coins,test\n",
}

WEIGHTS = {
    "isup": "--tasks=pico_digits --stand_in_for=ImageNet",
    "ext": (
        "--tasks=pico_digits --config.network.name=resnet --config.network.stage_sizes=(1,1) "
        "--config.network.width=24 --config.network.stem=strided"
    ),
    "joint": "--tasks=meta_train --config.stream={three}",
}

_BRIEFLY = (
    "--config.stream={one} --config.train.steps=4 --config.train.validate_every=2 "
    "--config.search.trials=1"
)
# The config and flags of each run; they replace flags of RUN.
RUNS = {
    # Every learner. Without a margin the highest relatedness decides, with one the latest task.
    "indep": "indep",
    "ft_prev": "ft_prev",
    "ft_dynamic": "ft_dynamic",
    "ft_static": "ft_static --config.select.margin=0",
    "mt": "mt",
    "bhpo": "bhpo --config.search.space=small --config.search.trials=5",
    "pt_isup": "pt_isup --config.pretrained.path={isup}",
    "pt_ext": "pt_ext --config.pretrained.path={ext}",
    "pt_mt": "pt_mt --config.pretrained.path={joint}",
    "pt_ft": "pt_ft --config.pretrained.path={isup} --config.select.margin=0",
    "nearest_class_mean": "nearest_class_mean",
    "logistic_regression": "logistic_regression",
    "closed_form": "closed_form --config.budget=tiny",
    "frontier": "frontier --config.budget=tiny",
    "ft_dynamic-caps": (
        "ft_dynamic --config.select.margin=0 --config.select.neighbours=3 "
        "--config.select.train_cap=70 --config.select.dev_cap=20"
    ),
    # Auxiliary tasks.
    "mt-two": "mt --config.auxiliary.count=2",
    "mt-all-previous": "mt --config.auxiliary.which=all --config.initialisation=previous",
    "mt-random": "mt --config.auxiliary.which=random",
    "mt-static": "mt --config.initialisation=related_static --config.select.margin=0",
    "indep-auxiliary": "indep --config.auxiliary.which=related",
    # Searches, pruning and ensembles.
    "ft_prev-grid": (
        "ft_prev --config.search.method=grid --config.search.learning_rate=(0.03,0.1) "
        "--config.search.label_smoothing=(0.0,0.1)"
    ),
    "ft_prev-bayesian": "ft_prev --config.search.method=bayesian --config.search.trials=5",
    "bhpo-large": (
        "bhpo --config.search.space=large --config.search.trials=4 --config.ensemble=2 "
        "--config.stream={one} --config.train.steps=8"
    ),
    "ft_prev-halving": "ft_prev --config.search.pruning=halving --config.search.trials=4",
    "mt-halving": "mt --config.search.pruning=halving --config.search.trials=4",
    "ft_prev-ensemble": "ft_prev --config.ensemble=2",
    # Heads on a frozen backbone.
    "indep-frozen": "indep --config.train.frozen=true",
    "ft_dynamic-frozen": "ft_dynamic --config.train.frozen=true --config.select.margin=0",
    "pt_isup-frozen": (
        "pt_isup --config.pretrained.path={isup} --config.train.frozen=true --config.ensemble=2"
    ),
    "indep-frozen-bayesian": (
        "indep --config.train.frozen=true --config.search.method=bayesian --config.search.trials=5"
    ),
    # Several labels per image.
    "ft_dynamic-labels": "ft_dynamic --config.stream={labels} --config.select.margin=0",
    "mt-labels": "mt --config.stream={labels}",
    "indep-frozen-labels": "indep --config.stream={labels} --config.train.frozen=true",
    "nearest_class_mean-labels": "nearest_class_mean --config.stream={labels}",
    "logistic_regression-labels": "logistic_regression --config.stream={labels}",
    # What is kept, what is judged, and who runs the trials.
    "indep-keep_all": "indep --config.keep=all --config.search.trials=3",
    "ft_dynamic-last_1": "ft_dynamic --config.keep=last_1",
    "ft_prev-meta_train": "ft_prev --config.protocol=meta_train --config.seed=3",
    "indep-threads": "indep --executor=threads --workers=2",
    "indep-two_devices": f"indep {_BRIEFLY} --devices=2",
    # Training.
    "indep-no_steps": "indep --config.train.steps=0",
    "indep-diverged": "indep --config.search.learning_rate=(1e5,1e6)",
    "indep-recipe": (
        "indep --config.augmentation.crop=false --config.augmentation.flip=false "
        "--config.train.weight_decay=0.01 --config.train.warmup_share=0.5"
    ),
    # Networks.
    "network-mlp": f"indep {_BRIEFLY} --config.network.name=mlp --config.network.hidden=(32,16)",
    "network-resnet": (  # its maps are large enough for another compiler option
        f"indep {_BRIEFLY} --config.network.name=resnet --config.network.stage_sizes=(1,1) "
        "--config.network.width=8 --config.network.stem=small"
    ),
    "network-bottleneck": (
        f"indep {_BRIEFLY} --config.network.name=resnet50 --config.network.stage_sizes=(1,1) "
        "--config.network.width=8 --config.network.stem=standard --config.network.padding=torch"
    ),
    "network-vgg": (
        f"indep {_BRIEFLY} --config.network.name=vgg11 --config.network.stage_sizes=(1,1) "
        "--config.network.width=8 --config.network.norm=true --config.network.hidden=(16,)"
    ),
    "network-vit": (
        f"indep {_BRIEFLY} --config.network.name=vit_tiny8 --config.network.width=24 "
        "--config.network.depth=2"
    ),
    "network-nfnet": (
        f"indep {_BRIEFLY} --config.network.name=nfnet_f0 --config.network.stage_sizes=(1,) "
        "--config.network.width=256 --config.network.resolution=16"
    ),
    "network-bfloat16": f"indep {_BRIEFLY} --config.network.precision=bfloat16",
}
WITHOUT_STEPS = ("nearest_class_mean", "logistic_regression", "closed_form", "frontier")
ENVIRONMENTS = {"indep-two_devices": {"XLA_FLAGS": "--xla_force_host_platform_device_count=2"}}

METHODS = (
    "adaptive_testing anchor_points atlas copy_nearest fluid_benchmarking gp_irt irt_1pl irt_2pl"
    " irt_2pl_adaptive irt_multidimensional irt_multidimensional_adaptive linear_gaussian"
    " oracle_accuracy_prefix published quadrature random_mean recommended single_order_floor"
    " sort_and_search sort_and_search_random sort_and_search_recursive sparse_eval stratified_mean"
)
SURROGATES = ("bayesian", "forest", "heads", "networks", "tested_model")
STUDIED = ("mvh_edge", "nlu_copa", "cifar10.1_v6")
# -- Reading the files that the commands wrote --------------------------------------------------

Row = dict[str, Any]


def read_events(run_dir: Path) -> list[Row]:
    """Returns the records of a run's ledger, without ids, hashes and times."""
    records = [json.loads(line) for line in (run_dir / "ledger.jsonl").read_text().splitlines()]
    return [_EVENTS[record["kind"]](run_dir, record) for record in records]


def _train(run_dir: Path, record: Row) -> Row:
    names = ("kind", "task_id", "task_kind", "num_classes", "n_train", "n_dev", "chosen", "flops")
    trials = [
        {"trial": trial["trial"], "step": trial["step"]} | trial["info"]
        for trial in record["trials"]
    ]
    return {name: record[name] for name in names} | {"trials": trials}


def _predict(run_dir: Path, record: Row) -> Row:
    names = ("kind", "task_id", "split", "n", "metric")
    others = [_answer(run_dir, other) for other in record["others"]]
    row = {name: record[name] for name in names} | _answer(run_dir, record)
    return row | ({"others": others} if others else {})


def _answer(run_dir: Path, record: Row) -> Row:
    """Returns a predictor's error, and the mean probability of the truth, which shows more."""
    row = {name: record[name] for name in ("trial", "value", "error", "flops")}
    with np.load(run_dir / record["outcomes"]) as outcomes:
        return row | {"mean_confidence": float(outcomes["confidence"].mean(dtype=np.float64))}


_BEGUN = ("kind", "learner", "tasks", "events", "flops")
_EVENTS: dict[str, Callable[[Path, Row], Row]] = {
    "run": lambda run_dir, record: {name: record[name] for name in _BEGUN},
    "train": _train,
    "predict": _predict,
    "end": lambda run_dir, record: record,
}


def pretrain(weights: Path) -> list[Row]:
    """Returns the trials of a pre-training and their FLOPs."""
    record = json.loads(weights.with_name(f"{weights.name}.json").read_text())
    return [*record["trials"], {"flops": record["flops"], "chosen": record["chosen"]["hyper"]}]


def read_study(path: Path) -> list[Row]:
    """Returns the rows of a study, without seconds; a missing value is None."""
    with open(path, newline="") as file:
        return [
            {name: _value(name, text) for name, text in row.items() if name != "seconds"}
            for row in csv.DictReader(file)
        ]


def _value(column: str, text: str) -> str | int | float | None:
    if column in ("matrix", "method", "rule", "estimator"):
        return text
    if column in ("budget", "seed", "labels", "n"):
        return int(text)
    return None if not text or math.isnan(value := float(text)) else value


# -- Recording ----------------------------------------------------------------------------------


class CommandFailed(Exception):
    """A command ended with an error."""


class Recorder:
    """Runs commands in a folder; files that several commands need are made at first use.

    Args:
      tree: root of the code that is run.
      folder: folder for all files.
    """

    def __init__(self, tree: Path, folder: Path):
        self.tree, self.folder, self.shared = tree, folder, os.environ.get("NEVIS_STREAM_SHARED")
        for name, rows in STREAMS.items():
            (folder / f"{name}.csv").write_text(COLUMNS + rows)
        self._files: dict[str, Path] = {}

    def jobs(self) -> Iterator[tuple[str, Callable[[], list[Row]]]]:
        """Yields the name of each recorded result, and the function that returns its rows."""
        for name in WEIGHTS:
            yield f"pretraining/{name}", lambda name=name: pretrain(self.weights(name))
        for name in RUNS:
            yield f"runs/{name}", lambda name=name: read_events(self.run(name))
        for name in STUDIED:
            yield f"studies/{name}", lambda name=name: self._study(name)
        for name in SURROGATES:
            yield f"testing/{name}", lambda name=name: self._test(name)

    def run(self, name: str) -> Path:
        """Returns the directory of one of `RUNS`."""

        def make(out: Path) -> None:
            config, *words = shlex.split(RUNS[name])
            flags = {word.partition("=")[0] for word in words}
            common = [word for word in shlex.split(RUN) if word.partition("=")[0] not in flags]
            if config in WITHOUT_STEPS:
                common = [word for word in common if not word.startswith("--config.train.")]
            environment = ENVIRONMENTS.get(name, {})
            self.call([*common, *words], config=config, out=out, environment=environment)

        return self._once(f"runs/{name}", make)

    def weights(self, name: str) -> Path:
        """Returns the file of one of `WEIGHTS`."""
        words = shlex.split(f"{PRETRAIN} {WEIGHTS[name]}")
        return self._once(f"{name}.safetensors", lambda out: self.call(words, out=out))

    def call(self, words: str | Sequence[str], **values: Any) -> None:
        """Runs `python -m WORDS`; the keyword arguments replace its {placeholders}.

        `environment` holds additional environment variables.

        Raises:
          CommandFailed: the message has the last lines of its errors.
        """
        words = shlex.split(words) if isinstance(words, str) else words
        environment = values.pop("environment", {})
        values |= {name: self.folder / f"{name}.csv" for name in STREAMS}
        needed = [name for name in WEIGHTS if any(f"{{{name}}}" in word for word in words)]
        values |= {name: self.weights(name) for name in needed}
        self.python(["-m", *(word.format(**values) for word in words)], environment)

    def python(self, words: Sequence[str], environment: Mapping[str, str] | None = None) -> str:
        """Runs Python with the packages of the tree and returns what it printed."""
        variables = {"NEVIS_STREAM_CACHE": str(self.folder / "compiled")} | os.environ
        variables |= {"PYTHONPATH": str(self.tree), "JAX_PLATFORMS": "cpu"} | (environment or {})
        process = subprocess.run(
            [sys.executable, *words], cwd=self.tree, env=variables, capture_output=True, text=True
        )
        if process.returncode:
            errors = " | ".join(process.stderr.strip().splitlines()[-5:])
            raise CommandFailed(f"{shlex.join(words)}: status {process.returncode}: {errors}")
        return process.stdout

    def _once(self, name: str, make: Callable[[Path], None]) -> Path:
        if name not in self._files:
            make(self.folder / name)
            self._files[name] = self.folder / name
        return self._files[name]

    def _matrix(self, name: str) -> Path:
        if not self.shared:
            raise CommandFailed(
                "NEVIS_STREAM_SHARED is not set: the folder that contains matrices/."
            )
        return Path(self.shared) / "matrices" / f"{name}.npz"

    def _study(self, name: str) -> list[Row]:
        """Returns the rows of one matrix; one process studies all matrices, to compile once."""
        words = [*shlex.split(STUDY), *(str(self._matrix(name)) for name in STUDIED)]
        methods = METHODS.replace(" ", ",")
        file = self._once("study", lambda out: self.call(words, methods=methods, out=out))
        return [row for row in read_study(file / "study.csv") if row["matrix"] == name]

    def _test(self, surrogate: str) -> list[Row]:
        """Returns the table of repeated tests with one surrogate."""
        run = self.run("nearest_class_mean")
        make = lambda out: self.call(TEST, run=run, surrogate=surrogate, out=out)  # noqa: E731
        return read_study(self._once(f"testing/{surrogate}", make) / "ratios.csv")


def record(out: Path, tree: Path, only: str, work: Path | None) -> int:
    """Records every result whose name matches; returns the number of those that failed."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    with tempfile.TemporaryDirectory() as temporary:
        folder = work or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise SystemExit(f"error: {folder} is not empty.")
        out.parent.mkdir(parents=True, exist_ok=True)
        recorder, results, failed = Recorder(tree, folder.resolve()), {}, 0
        show = "import nevis_stream; print(nevis_stream.__file__)"
        package = recorder.python(["-c", show]).strip()
        if tree not in Path(package).parents:
            raise SystemExit(f"error: the commands would run {package}, which is not in {tree}.")
        for name, job in recorder.jobs():
            if not _matches(name, only):
                continue
            start = _spent()
            try:
                results[name] = job()
            except (CommandFailed, LookupError, OSError, TypeError, ValueError) as error:
                results[name], failed = [{"failed": f"{type(error).__name__}: {error}"}], failed + 1
                print(f"{name}: {error}", file=sys.stderr, flush=True)
            print(f"{name}: {_spent() - start:.1f} CPU-s", flush=True)
    if not results:
        raise SystemExit(f"error: no result has a name like {only!r}.")
    write(out, results)
    print(f"{out}: {len(results)} names, {failed} failed, {_spent():.0f} CPU-s")
    return failed


def _matches(name: str, patterns: str) -> bool:
    return any(fnmatch.fnmatch(name, pattern) for pattern in patterns.split(","))


def _spent() -> float:
    """Returns the CPU seconds of the commands that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def write(out: Path, results: Mapping[str, list[Row]]) -> None:
    """Writes a record as JSON with one row per line, which is easy to compare."""
    parts = [f'"about": {json.dumps(_about())}']
    for name, rows in results.items():
        lines = ",\n".join(json.dumps(row, sort_keys=True, separators=(",", ":")) for row in rows)
        parts.append(f"{json.dumps(name)}: [\n{lines}\n]")
    out.write_text("{\n" + ",\n".join(parts) + "\n}\n")


def _about() -> Row:
    packages = ("jax", "jaxlib", "flax", "optax", "numpy", "scipy", "scikit-learn")
    versions = {name: importlib.metadata.version(name) for name in packages}
    return {"python": platform.python_version(), "machine": platform.machine()} | versions


# -- Comparing ----------------------------------------------------------------------------------


def compare(first: Path, second: Path, only: str, tolerance: float) -> int:
    """Prints every difference between two records; returns how many there are."""
    try:
        a, b = (json.loads(path.read_text()) for path in (first, second))
    except ValueError as error:
        raise BadInput(f"{first} or {second} is no record: {error}.") from None
    for line in find_differences(a.pop("about", {}), b.pop("about", {}), 0.0):
        print(f"note: made on another machine or with other versions: {line}")
    if not (names := [name for name in dict.fromkeys([*a, *b]) if _matches(name, only)]):
        raise SystemExit(f"error: no result has a name like {only!r}.")
    count = 0
    for name in names:
        for line in find_differences(a.get(name), b.get(name), tolerance):
            print(f"{name}: {line}")
            count += 1
    rows = sum(len(a.get(name) or ()) for name in names)
    print(f"{count} differences; {len(names)} names, {rows} rows compared")
    return count


def find_differences(a: Any, b: Any, tolerance: float, place: str = "") -> Iterator[str]:
    """Yields a line for each difference of two JSON values; a missing value counts as null.

    Args:
      a: the first value.
      b: the second value.
      tolerance: relative tolerance of floats; whole numbers must be equal.
      place: path of the values in the record.
    """
    if isinstance(a, dict) and isinstance(b, dict):
        for name in dict.fromkeys([*a, *b]):
            inside = f"{place}.{name}" if place else name
            yield from find_differences(a.get(name), b.get(name), tolerance, inside)
    elif isinstance(a, list) and isinstance(b, list):
        if len(a) != len(b):
            yield f"{place or 'rows'}: {len(a)} and {len(b)} elements"
        for number, (x, y) in enumerate(zip(a, b, strict=False)):
            inside = f"{place}[{number}]" if place else f"row {number}{_title(x)}"
            yield from find_differences(x, y, tolerance, inside)
    elif isinstance(a, float) and isinstance(b, float):
        if not (a == b or math.isclose(a, b, rel_tol=tolerance)):
            yield f"{place}: {a!r} and {b!r}"
    elif a != b:
        yield f"{place or 'all'}: {_short(a)} and {_short(b)}"


def _title(row: Any) -> str:
    """Returns a description of a row of a ledger or a study."""
    names = ("kind", "task_id", "method", "budget", "seed")
    words = [str(row[name]) for name in names if name in row] if isinstance(row, dict) else []
    return f" ({' '.join(words)})" if words else ""


def _short(value: Any) -> str:
    text = "nothing" if value is None else json.dumps(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def main() -> None:
    """Records or compares; the exit status is 1 if a command failed or results differ."""
    parser = make_parser(__doc__)
    subcommands = parser.add_subparsers(dest="command", required=True)
    recording, comparing = (subcommands.add_parser(name) for name in ("record", "compare"))
    for subparser in (recording, comparing):
        subparser.add_argument(
            "--only", default="*", help="patterns of names, for example 'runs/ft_*,testing/*'"
        )
    root = Path(__file__).resolve().parents[1]
    recording.add_argument("--out", type=Path, required=True, help="file to write")
    recording.add_argument("--tree", type=Path, default=root, help="root of the code that is run")
    recording.add_argument("--work", type=Path, help="keep runs and caches in this new folder")
    comparing.add_argument("first", type=Path)
    comparing.add_argument("second", type=Path)
    comparing.add_argument("--tolerance", type=float, default=0.0, help="relative, of floats alone")
    arguments = parser.parse_args()
    if arguments.command == "record":
        sys.exit(
            record(arguments.out, arguments.tree.resolve(), arguments.only, arguments.work) > 0
        )
    sys.exit(compare(arguments.first, arguments.second, arguments.only, arguments.tolerance) > 0)


if __name__ == "__main__":
    entry.guard(main)
