"""Writes run directories by the schema of docs/run-directory.md, without a runner or a learner."""

import hashlib
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image


@dataclass(frozen=True)
class SyntheticRun:
    """What a run directory should contain; `write` makes it.

    `errors` maps a task id to its error (None: undefined); tasks without one get a smooth made-up
    error. `start` is what a task is initialised from: "random" weights, the "previous" task, or
    a "related" earlier one, drawn by the seed; `mistakes` adds files of the worst mistakes.
    `skip` is the number of first tasks to leave out. `events` cuts the run off after that number
    of events; None writes a complete run.
    """

    learner: str = "indep"
    budget: str | None = "small"
    seed: int = 0
    stream: str = "synthetic"
    digest: str = "0123456789abcdef"
    protocol: str = "meta_test"
    tasks: int = 4
    meta_test: int = 2
    trials: int = 2
    curve_points: int = 4
    flops: int = 1000
    init_flops: int = 7
    skill: float = 0.0
    errors: tuple[tuple[str, float | None], ...] = ()
    events: int | None = None
    config: tuple[tuple[str, Any], ...] = ()
    task_name: str = "task_{:03d}"
    thumbnails: bool = True
    start: str = "random"
    mistakes: bool = False
    skip: int = 0
    repeats: bool = False  # the last task has the data set of the first

    def but(self, **changes: Any) -> "SyntheticRun":
        """Returns a copy with other values."""
        return replace(self, **changes)

    @property
    def settings(self) -> dict[str, Any]:
        """The content of config.json without the hash."""
        learner = {"learner": self.learner, "budget": self.budget} | dict(self.config)
        return {
            "learner": learner,
            "stream": self.stream,
            "stream_digest": self.digest,
            "protocol": self.protocol,
            "seed": self.seed,
            "keep": "chosen",
        }

    @property
    def config_hash(self) -> str:
        """As the runner makes it."""
        text = json.dumps(self.settings, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def kept(self) -> list[int]:
        """Orders of the tasks that the protocol visits."""
        last = self.tasks if self.protocol == "meta_test" else self.tasks - self.meta_test
        return list(range(1 + self.skip, last + 1))

    def task_id(self, order: int) -> str:
        """Returns the name of a task."""
        return self.task_name.format(order)

    def error(self, order: int) -> float | None:
        """Returns the error of a task."""
        values = dict(self.errors)
        if self.task_id(order) in values:
            return values[self.task_id(order)]
        wave = 0.3 + 0.2 * np.sin(1.7 * order) - self.skill * order / self.tasks
        method = sum(map(ord, f"{self.learner} {self.budget}"))
        noise = np.random.default_rng([self.seed, order, method]).normal(0, 0.02)
        return round(float(np.clip(wave + noise, 0, 1)), 6)

    def source(self, order: int) -> str:
        """Returns what a task's trials are initialised from."""
        if self.start == "random" or order == 1:
            return "random"
        if self.start == "previous":
            return self.task_id(order - 1)
        drawn = np.random.default_rng([self.seed, order, 1]).random() ** 3  # early tasks are hubs
        return self.task_id(1 + int(drawn * (order - 1)))

    def records(self) -> list[dict[str, Any]]:
        """Returns the ledger's records."""
        records = [self._header()]
        for order in self.kept:
            records.append(self._train(order, len(records) - 1))
            records.append(self._predict(order, len(records) - 1))
        if self.events is not None:
            return records[: 1 + self.events]
        return [*records, {"kind": "end", "events": len(records) - 1}]

    def write(self, path: Path) -> Path:
        """Writes the directory and returns its path."""
        path.mkdir(parents=True)
        config = self.settings | {"config_hash": self.config_hash}
        (path / "config.json").write_text(json.dumps(config, indent=1, sort_keys=True))
        lines = (json.dumps(r, sort_keys=True, separators=(",", ":")) for r in self.records())
        (path / "ledger.jsonl").write_text("".join(line + "\n" for line in lines))
        facts = {"python": "3.11.7", "cores": 2, "packages": {"jax": "0.10.2"}, "devices": ["cpu"]}
        (path / "environment.jsonl").write_text(json.dumps(facts) + "\n")
        (path / "thumbnails").mkdir()
        for order in self.kept if self.thumbnails else ():
            name = self.task_id(order)
            if "/" not in name:
                _strip(order).save(path / "thumbnails" / f"{name}.png")
                if self.mistakes:
                    _strip(1000 + order).save(path / "thumbnails" / f"{name}-mistakes.png")
                    (path / "thumbnails" / f"{name}-mistakes.json").write_text(
                        json.dumps(self.worst(order))
                    )
        return path

    def worst(self, order: int) -> dict[str, Any]:
        """Returns the content of a file of mistakes for a task."""
        output = [
            {"sample_id": f"data/all/{i}", "true": i % 10, "predicted": (i + 3) % 10}
            | {"confidence": i / 100, "predicted_confidence": 0.9 - i / 100}
            for i in range(12)
        ]
        facts = {
            "task_id": self.task_id(order),
            "split": "test",
            "kind": "single_label",
            "predictor_id": "f" * 16,
        }
        return facts | {"n": 50 + order, "wrong": 20, "mistakes": output}

    def _header(self) -> dict[str, Any]:
        names = ("learner", "budget", "stream", "protocol", "seed", "config_hash")
        return {name: getattr(self, name) for name in names} | {
            "kind": "run",
            "schema": 2,
            "stream_digest": self.digest,
            "tasks": len(self.kept),
            "events": 2 * len(self.kept),
            "flops": {"pretrain": {"-": self.init_flops}} if self.init_flops else {},
        }

    def _train(self, order: int, event: int) -> dict[str, Any]:
        trials = [str(trial) for trial in range(self.trials)]
        return self._task(order) | {
            "kind": "train",
            "event": event,
            "dataset_id": f"data_{1 if self.repeats and order == self.tasks else order:03d}",
            "year": 1992 + order // 4,
            "domain": ("object", "medical", "texture", "face")[order % 4],
            "task_kind": "single_label" if order % 3 else "multi_label",
            "meta_split": "train" if order <= self.tasks - self.meta_test else "test",
            "num_classes": 10,
            "n_train": 100 * order,
            "n_dev": 20,
            "flops": {
                "train": dict.fromkeys(trials, self.flops * order),
                "validate": dict.fromkeys(trials, self.flops // 10),
                "select": {"-": 3},
            },
            "chosen": order % self.trials,
            "trials": [self._trial(order, trial) for trial in range(self.trials)],
        }

    def _trial(self, order: int, trial: int) -> dict[str, Any]:
        last = self.error(order) or 0.1
        steps = np.linspace(0, 50 * order, self.curve_points).round().astype(int)
        dev = last + (0.9 - last) * np.exp(-np.linspace(0, 4, self.curve_points)) + 0.01 * trial
        loss = [None, *(round(float(e), 4) for e in 2 * dev[1:])]
        curve = [list(p) for p in zip(steps.tolist(), loss, dev.round(5).tolist(), strict=True)]
        info = {"hyper": {"lr": 0.1}, "initialised_from": self.source(order), "diverged_at": None}
        info |= {"steps": 50 * order, "dev_error": round(float(dev[-1]), 5), "curve": curve}
        return {"trial": trial, "predictor_id": f"{order:08x}{trial:08x}", "step": 9, "info": info}

    def _predict(self, order: int, event: int) -> dict[str, Any]:
        error, trial = self.error(order), order % self.trials
        metric = "error_rate" if order % 3 else "mean_average_precision"
        split = "test" if self.protocol == "meta_test" else "dev_test"
        value = None if error is None else error if order % 3 else 1 - error
        other = {"trial": 99, "predictor_id": "f" * 16, "value": 0.0, "error": 0.0}
        other |= {"outcomes": "outcomes/other.npz", "flops": {"predict": {"99": 10**12}}}
        record = self._task(order) | {
            "kind": "predict",
            "event": event,
            "split": split,
            "n": 50 + order,
            "metric": metric,
            "value": value,
            "error": error,
            "predictor_id": f"{order:08x}{trial:08x}",
            "trial": trial,
            "outcomes": f"outcomes/{event:04d}-{order}-{split}-trial-{trial:03d}.npz",
            "flops": {"predict": {str(trial): 11}},
            "others": [other],
        }
        return record if error is not None else record | {"reason": "no positive <label>"}

    def _task(self, order: int) -> dict[str, Any]:
        return {"order": order, "task_id": self.task_id(order)}


def _strip(seed: int) -> Image.Image:
    rng = np.random.default_rng(seed)
    coarse = rng.integers(0, 255, (4, 48, 3)).astype(np.uint8)
    return Image.fromarray(coarse).resize((598, 48), Image.Resampling.BICUBIC)


def on_two_streams(first: SyntheticRun, second: SyntheticRun) -> list[SyntheticRun]:
    """Returns two runs on their stream and on a variant of it, the second with two seeds."""
    other = {"digest": "f" * 16, "stream": "remove_first_30", "skip": 3}
    return [first, second, second.but(seed=1), first.but(**other), second.but(**other)]
