"""Records the results of the command line on small problems, so that later code can be compared.

  python -m benchmarks.equal_results record --out=before.json [--only='runs/ft_*'] [--tree=DIR]
  python -m benchmarks.equal_results compare before.json after.json [--only='runs/*']

A refactoring must change none of these numbers: what every learner does on three tasks of `pico`
(the errors, the curve and the hyper-parameters of each trial, FLOPs), and what every method of
dynamic evaluation says of new models. Everything is done by commands in processes of their own, so
the same file serves the code before a change and the code after it. The commands are in the
tables below: where a change renames a flag, change it there. Where it changes a file that the
commands write, change the function under "Reading" that reads it.

What is rounded in the last place depends on the processor, on how many of its cores XLA may use,
and on the version of JAX. So every command runs on one core of the CPU, the first of those that
this process may use (taskset chooses another), and both files are to be made on one machine. The
matrices come from the folder that NEVIS_STREAM_SHARED names.
"""

import argparse
import csv
import fnmatch
import functools
import importlib.metadata
import itertools
import json
import math
import os
import platform
import resource
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

# -- Commands: words in {braces} are filled in by the code below --------------------------------

RUN = (
    "launch.run --config={config} --config.stream={three} "
    "--config.train.steps=16 --config.train.validate_every=4 --notensorboard --run_dir={out}"
)
PRETRAIN = (
    "launch.pretrain --config=indep --config.train.steps=16 "
    "--config.train.validate_every=4 --out={out}"
)
STUDY = "launch.evaluate study --methods={methods} --budgets=8,16,32 --seeds=2 --out={out}"  # FILES
IMPORT = "launch.evaluate import {source} --cache={cache}"
IMPORT_RUN = "launch.evaluate import {source} --splits=dev,test --stream={three} --cache={cache}"
_ADDING = "--budget={budget} --method={method} --cache={cache}"
ADD_MODELS = f"launch.evaluate add-model --model={{model}} {_ADDING}"
ADD_SAMPLES_OF_FILE = f"launch.evaluate add-samples --samples={{file}} {_ADDING}"
ADD_MODELS_OF_RUN = f"{ADD_MODELS} --stream={{three}}"
ADD_SPLIT = f"launch.evaluate add-samples --splits=dev_test --stream={{three}} {_ADDING}"
EXPORT = "launch.evaluate export {out} --cache={cache}"

COLUMNS = "order,year,task_id,dataset_id,meta_split\n"
STREAMS = {
    "three": (
        "1,1998,pico_textures,pico_textures,train\n"
        "2,2001,pico_coins,pico_coins,train\n"
        "3,2005,pico_faces,pico_faces,test\n"
    ),
    # Several labels a picture, and a data set that comes again.
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
# Of each run its config and flags; a flag that RUN gives too is taken from here.
RUNS = {
    # Every config. Without a margin the highest relatedness decides, with one the latest task.
    "indep": "indep",
    "ft_prev": "ft_prev",
    "ft_dynamic": "ft_dynamic",
    "ft_static": "ft_static --config.select.margin=0",
    "mt": "mt",
    "bhpo": "bhpo --config.search.trials=5",
    "pt_isup": "pt_isup --config.pretrained.path={isup}",
    "pt_ext": "pt_ext --config.pretrained.path={ext}",
    "pt_mt": "pt_mt --config.pretrained.path={joint}",
    "pt_ft": "pt_ft --config.pretrained.path={isup} --config.select.margin=0",
    "nearest_class_mean": "nearest_class_mean",
    "logistic_regression": "logistic_regression",
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
    # Several labels a picture.
    "ft_dynamic-labels": "ft_dynamic --config.stream={labels} --config.select.margin=0",
    "mt-labels": "mt --config.stream={labels}",
    "indep-frozen-labels": "indep --config.stream={labels} --config.train.frozen=true",
    "nearest_class_mean-labels": "nearest_class_mean --config.stream={labels}",
    "logistic_regression-labels": "logistic_regression --config.stream={labels}",
    # The run: what is kept, what is judged, who trains.
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
    "network-resnet": (  # on maps that are so large that another compiler option is taken
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
ENVIRONMENTS = {"indep-two_devices": {"XLA_FLAGS": "--xla_force_host_platform_device_count=2"}}

METHODS = (
    "copy_nearest",
    "irt_1pl",
    "irt_2pl",
    "irt_2pl_adaptive",
    "irt_multidimensional",
    "irt_multidimensional_adaptive",
    "oracle_accuracy_prefix",
    "published",
    "random_mean",
    "recommended",
    "single_order_floor",
    "sort_and_search",
    "sort_and_search_random",
    "sort_and_search_recursive",
    "stratified_mean",
)
STUDIED = ("mvh_edge", "nlu_copa", "cifar10.1_v6")
# New models are added to matrices whose models form groups (checkpoints of one training run),
# and to others; new samples to the first.
ADDED_TO = ("nlu_rte", "mvh_edge")
NEW_MODELS, NEW_SAMPLES = 3, 40  # the last ones of a matrix; the others are known
METHODS_FOR_SAMPLES = ("sort_and_search", "stratified_mean", "irt_2pl_adaptive")
BUDGET, BUDGET_OF_RUN = 16, 2  # asked of each new model and sample; of the models of one run

# -- Reading: what the commands have written ----------------------------------------------------

Row = dict[str, Any]


def events(run_dir: Path) -> list[Row]:
    """Returns what a run's ledger says, one row per event, without ids, hashes and times."""
    records = [json.loads(line) for line in (run_dir / "ledger.jsonl").read_text().splitlines()]
    return [_EVENTS[record["kind"]](run_dir, record) for record in records]


def _begun(run_dir: Path, record: Row) -> Row:
    return {name: record[name] for name in ("kind", "learner", "tasks", "events", "flops")}


def _trained(run_dir: Path, record: Row) -> Row:
    names = ("kind", "task_id", "task_kind", "num_classes", "n_train", "n_dev", "chosen", "flops")
    trials = [
        {"trial": one["trial"], "step": one["step"]} | one["info"] for one in record["trials"]
    ]
    return {name: record[name] for name in names} | {"trials": trials}


def _predicted(run_dir: Path, record: Row) -> Row:
    names = ("kind", "task_id", "split", "n", "metric")
    others = [_answer(run_dir, other) for other in record["others"]]
    told = {name: record[name] for name in names} | _answer(run_dir, record)
    return told | ({"others": others} if others else {})


def _answer(run_dir: Path, record: Row) -> Row:
    """A predictor's error, and the mean probability of the truth, which shows smaller changes."""
    told = {name: record[name] for name in ("trial", "value", "error", "flops")}
    with np.load(run_dir / record["outcomes"]) as outcomes:
        return told | {"mean_confidence": float(outcomes["confidence"].mean(dtype=np.float64))}


_EVENTS: dict[str, Callable[[Path, Row], Row]] = {
    "run": _begun,
    "train": _trained,
    "predict": _predicted,
    "end": lambda run_dir, record: record,
}


def pretrained(weights: Path) -> list[Row]:
    """Returns the job file next to a file of weights: the trials and what they cost."""
    record = json.loads(weights.with_name(f"{weights.name}.json").read_text())
    return [*record["trials"], {"flops": record["flops"], "chosen": record["chosen"]["hyper"]}]


def studied(folder: Path) -> list[Row]:
    """Returns the rows of a study, without seconds; a measure that a method lacks is None."""
    with open(folder / "study.csv", newline="") as file:
        return [
            {name: _value(name, text) for name, text in row.items() if name != "seconds"}
            for row in csv.DictReader(file)
        ]


def additions(cache: Path) -> list[Row]:
    """Returns the accounts of a cache's additions, without the models' ids and words on them."""
    rows = [json.loads(line) for line in (cache / "additions.jsonl").read_text().splitlines()]
    told = [{name: row[name] for name in row if name not in ("name", "reason")} for row in rows]
    return [{name: value for name, value in row.items() if value is not None} for row in told]


def cells(file: Path) -> list[Row]:
    """Returns how many cells of each model are right and wrong in an exported cache."""
    rows = []
    with np.load(file) as arrays:
        for kind in sorted({"correct", "predicted"} & set(arrays)):
            for place, of_model in enumerate(arrays[kind]):
                right, wrong = (int(np.count_nonzero(of_model == value)) for value in (1, 0))
                rows.append({"cells": kind, "model": place, "right": right, "wrong": wrong})
    return rows


def _value(column: str, text: str) -> str | int | float | None:
    if column in ("matrix", "method"):
        return text
    if column in ("budget", "seed"):
        return int(text)
    return None if not text or math.isnan(value := float(text)) else value


# -- Recording ----------------------------------------------------------------------------------


class Failed(Exception):
    """A command ended with an error."""


class Workshop:
    """Runs commands in a folder; what one of them makes for others is made when first needed.

    Args:
      tree: root of the code that is run.
      folder: where everything is written.
    """

    def __init__(self, tree: Path, folder: Path):
        self.tree, self.folder, self.shared = tree, folder, os.environ.get("NEVIS_STREAM_SHARED")
        for name, rows in STREAMS.items():
            (folder / f"{name}.csv").write_text(COLUMNS + rows)
        self._made: dict[str, Path] = {}

    def jobs(self) -> Iterator[tuple[str, Callable[[], list[Row]]]]:
        """Yields the name of everything that is recorded, and what makes its rows."""
        for name in WEIGHTS:
            yield f"pretraining/{name}", lambda name=name: pretrained(self.weights(name))
        for name in RUNS:
            yield f"runs/{name}", lambda name=name: events(self.run(name))
        for name in STUDIED:
            yield f"studies/{name}", lambda name=name: self._study(name)
        for matrix in ADDED_TO:
            for method in METHODS:
                job = functools.partial(self._add_models, matrix, method)
                yield f"new models/{matrix}/{method}", job
        for method in METHODS_FOR_SAMPLES:
            yield f"new samples/{method}", functools.partial(self._add_samples, method)
        yield "caches/runs", self._add_to_caches_of_runs

    def run(self, name: str) -> Path:
        """Returns the directory of one of `RUNS`."""

        def make(out: Path) -> None:
            config, *words = shlex.split(RUNS[name])
            given = {word.partition("=")[0] for word in words}
            usual = [word for word in shlex.split(RUN) if word.partition("=")[0] not in given]
            if config in ("nearest_class_mean", "logistic_regression"):  # without these keys
                usual = [word for word in usual if not word.startswith("--config.train.")]
            environment = ENVIRONMENTS.get(name, {})
            self.call([*usual, *words], config=config, out=out, environment=environment)

        return self._once(f"runs/{name}", make)

    def weights(self, name: str) -> Path:
        """Returns the file of one of `WEIGHTS`."""
        words = shlex.split(f"{PRETRAIN} {WEIGHTS[name]}")
        return self._once(f"{name}.safetensors", lambda out: self.call(words, out=out))

    def call(self, words: str | Sequence[str], **places: Any) -> None:
        """Runs `python -m WORDS` with its {places} filled in; one of them may be `environment`.

        Raises:
          Failed: with the last lines of what it said.
        """
        words = shlex.split(words) if isinstance(words, str) else words
        environment = places.pop("environment", {})
        places |= {name: self.folder / f"{name}.csv" for name in STREAMS}
        needed = [name for name in WEIGHTS if any(f"{{{name}}}" in word for word in words)]
        places |= {name: self.weights(name) for name in needed}
        self.python(["-m", *(word.format(**places) for word in words)], environment)

    def python(self, words: Sequence[str], environment: Mapping[str, str] | None = None) -> str:
        """Runs Python with the packages of the tree and returns what it printed."""
        around = {"NEVIS_STREAM_CACHE": str(self.folder / "compiled")} | os.environ
        around |= {"PYTHONPATH": str(self.tree), "JAX_PLATFORMS": "cpu"} | (environment or {})
        done = subprocess.run(
            [sys.executable, *words], cwd=self.tree, env=around, capture_output=True, text=True
        )
        if done.returncode:
            said = " | ".join(done.stderr.strip().splitlines()[-5:])
            raise Failed(f"{shlex.join(words)}: ended with {done.returncode}: {said}")
        return done.stdout

    def _once(self, name: str, make: Callable[[Path], None]) -> Path:
        if name not in self._made:
            make(self.folder / name)
            self._made[name] = self.folder / name
        return self._made[name]

    def _matrix(self, name: str) -> Path:
        if not self.shared:
            raise Failed("NEVIS_STREAM_SHARED is not set: the folder that contains matrices/.")
        return Path(self.shared) / "matrices" / f"{name}.npz"

    def _study(self, name: str) -> list[Row]:
        """Returns the rows of one matrix; one process studies all, to compile once."""

        def make(out: Path) -> None:
            words = [*shlex.split(STUDY), *(str(self._matrix(name)) for name in STUDIED)]
            self.call(words, methods=",".join(METHODS), out=out)

        return [row for row in studied(self._once("study", make)) if row["matrix"] == name]

    def _part(self, matrix: str, which: str, models: slice, samples: slice) -> Path:
        """Returns a file with some of the models and samples of a matrix."""

        def make(out: Path) -> None:
            with np.load(self._matrix(matrix)) as arrays:
                part = {"correct": arrays["correct"][models, samples]}
                part |= {"models": arrays["models"][models], "samples": arrays["samples"][samples]}
                if "group" in arrays:
                    part["group"] = arrays["group"][models]
            np.savez(out, **part)

        return self._once(f"{matrix}-{which}.npz", make)

    def _cache(self, matrix: str, which: str, models: slice, samples: slice, copy: str) -> Path:
        """Returns a new copy of the cache of a part of a matrix."""
        source = self._part(matrix, which, models, samples)
        name = f"{matrix}-{which}-cache"
        cache = self._once(name, lambda out: self.call(IMPORT, source=source, cache=out))
        return Path(shutil.copytree(cache, self.folder / f"{name}-{copy}"))

    def _add_models(self, matrix: str, method: str) -> list[Row]:
        everything, known, new = slice(None), slice(None, -NEW_MODELS), slice(-NEW_MODELS, None)
        cache = self._cache(matrix, "known_models", known, everything, method)
        model = self._part(matrix, "new_models", new, everything)
        self.call(ADD_MODELS, model=model, budget=BUDGET, method=method, cache=cache)
        return additions(cache)

    def _add_samples(self, method: str) -> list[Row]:
        everything, known, new = slice(None), slice(None, -NEW_SAMPLES), slice(-NEW_SAMPLES, None)
        cache = self._cache(ADDED_TO[0], "known_samples", everything, known, method)
        file = self._part(ADDED_TO[0], "new_samples", everything, new)
        self.call(ADD_SAMPLES_OF_FILE, file=file, budget=BUDGET, method=method, cache=cache)
        out = self.folder / f"samples-{method}.npz"
        self.call(EXPORT, out=out, cache=cache)
        return additions(cache) + cells(out)

    def _add_to_caches_of_runs(self) -> list[Row]:
        """Models and samples are added by asking checkpoints of runs."""
        cache, method = self.folder / "caches", "sort_and_search"
        self.call(IMPORT_RUN, source=self.run("indep-keep_all"), cache=cache)
        model = self.run("ft_prev")
        self.call(ADD_MODELS_OF_RUN, model=model, budget=BUDGET, method=method, cache=cache)
        one, out = cache / "pico_coins", self.folder / "pico_coins.npz"
        self.call(ADD_SPLIT, budget=BUDGET_OF_RUN, method=method, cache=one)
        self.call(EXPORT, out=out, cache=one)
        told = [additions(path.parent) for path in sorted(cache.glob("*/additions.jsonl"))]
        return [*itertools.chain(*told), *cells(out)]


def record(out: Path, tree: Path, only: str, work: Path | None) -> int:
    """Records everything whose name matches; returns how much of it failed."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    with tempfile.TemporaryDirectory() as temporary:
        folder = work or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise SystemExit(f"error: {folder} is not empty.")
        out.parent.mkdir(parents=True, exist_ok=True)
        shop, found, failed = Workshop(tree, folder.resolve()), {}, 0
        where = shop.python(["-c", "import nevis_stream; print(nevis_stream.__file__)"]).strip()
        if tree not in Path(where).parents:
            raise SystemExit(f"error: the commands would run {where}, which is not in {tree}.")
        for name, job in shop.jobs():
            if not fnmatch.fnmatch(name, only):
                continue
            begun = _spent()
            try:
                found[name] = job()
            except (Failed, LookupError, OSError, TypeError, ValueError) as error:
                found[name], failed = [{"failed": f"{type(error).__name__}: {error}"}], failed + 1
                print(f"{name}: {error}", file=sys.stderr, flush=True)
            print(f"{name}: {_spent() - begun:.1f} CPU-s", flush=True)
    if not found:
        raise SystemExit(f"error: nothing is called {only!r}.")
    write(out, found)
    print(f"{out}: {len(found)} names, {failed} failed, {_spent():.0f} CPU-s")
    return failed


def _spent() -> float:
    """CPU seconds of the commands that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def write(out: Path, found: Mapping[str, list[Row]]) -> None:
    """Writes a record: JSON, a line a row, so that differences read well."""
    parts = [f'"about": {json.dumps(_about())}']
    for name, rows in found.items():
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
    a, b = (json.loads(path.read_text()) for path in (first, second))
    for line in differences(a.pop("about", {}), b.pop("about", {}), 0.0):
        print(f"note: made elsewhere or with other versions: {line}")
    names = [name for name in dict.fromkeys([*a, *b]) if fnmatch.fnmatch(name, only)]
    if not names:
        raise SystemExit(f"error: nothing is called {only!r}.")
    count = 0
    for name in names:
        for line in differences(a.get(name), b.get(name), tolerance):
            print(f"{name}: {line}")
            count += 1
    rows = sum(len(a.get(name) or ()) for name in names)
    print(f"{count} differences; {len(names)} names, {rows} rows compared")
    return count


def differences(a: Any, b: Any, tolerance: float, place: str = "") -> Iterator[str]:
    """Yields a line for each place in which two JSON values differ; a missing value counts as null.

    Args:
      a: the first value.
      b: the second value.
      tolerance: floats may differ by this share of the larger one; whole numbers may not.
      place: where in the whole they are.
    """
    if isinstance(a, dict) and isinstance(b, dict):
        for name in dict.fromkeys([*a, *b]):
            inside = f"{place}.{name}" if place else name
            yield from differences(a.get(name), b.get(name), tolerance, inside)
    elif isinstance(a, list) and isinstance(b, list):
        if len(a) != len(b):
            yield f"{place or 'rows'}: {len(a)} and {len(b)} of them"
        for number, (x, y) in enumerate(zip(a, b, strict=False)):
            inside = f"{place}[{number}]" if place else f"row {number}{_title(x)}"
            yield from differences(x, y, tolerance, inside)
    elif isinstance(a, float) and isinstance(b, float):
        if not (a == b or math.isclose(a, b, rel_tol=tolerance)):
            yield f"{place}: {a!r} and {b!r}"
    elif a != b:
        yield f"{place or 'all'}: {_short(a)} and {_short(b)}"


def _title(row: Any) -> str:
    """Says in words which row of a ledger or a study it is."""
    names = ("kind", "task_id", "method", "budget", "seed")
    words = [str(row[name]) for name in names if name in row] if isinstance(row, dict) else []
    return f" ({' '.join(words)})" if words else ""


def _short(value: Any) -> str:
    text = "nothing" if value is None else json.dumps(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def main() -> None:
    """Records or compares; ends with 1 where something failed or differs."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    recording, comparing = (verbs.add_parser(name) for name in ("record", "compare"))
    for verb in (recording, comparing):
        verb.add_argument("--only", default="*", help="a pattern of names, for example 'runs/ft_*'")
    root = Path(__file__).resolve().parents[1]
    recording.add_argument("--out", type=Path, required=True, help="file to write")
    recording.add_argument("--tree", type=Path, default=root, help="root of the code that is run")
    recording.add_argument("--work", type=Path, help="keep runs and caches in this new folder")
    comparing.add_argument("first", type=Path)
    comparing.add_argument("second", type=Path)
    comparing.add_argument("--tolerance", type=float, default=0.0, help="relative, of floats alone")
    given = parser.parse_args()
    if given.verb == "record":
        sys.exit(record(given.out, given.tree.resolve(), given.only, given.work) > 0)
    sys.exit(compare(given.first, given.second, given.only, given.tolerance) > 0)


if __name__ == "__main__":
    main()
