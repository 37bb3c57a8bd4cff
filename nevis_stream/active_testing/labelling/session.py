"""A labelling session: a directory with what is known of a pool, the draws, and the labels.

    session.json      settings; written last by `start`, and never changed
    generation-0/     ids and arrays of the first samples; generation-1, … of those added later
    draws.jsonl       one line for each round of draws, with probabilities and beliefs
    labels.jsonl      one line for each file of labels
    rounds/003/       to_label.csv, label.html and contact_sheet.png of a draw

Both .jsonl files are only appended to, and each line is written whole or not at all, with checksums
(`nevis_stream.storage.checked_lines`). A draw depends on the settings, on earlier draws and on the
labels so far; so what a kill interrupted is repeated.
"""

import contextlib
import fcntl
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from nevis_stream.active_testing.choosing import ProportionalSampling
from nevis_stream.active_testing.labelling.logs import Draw, recorded_draws, recorded_labels
from nevis_stream.active_testing.labelling.pool_parts import (
    Generation,
    read_generation,
    write_generation,
)
from nevis_stream.active_testing.labelling.pools import show_value
from nevis_stream.active_testing.labelling.settings import SETTINGS, SessionSettings
from nevis_stream.active_testing.pool import Pool
from nevis_stream.active_testing.surrogates import build_surrogate
from nevis_stream.active_testing.testing import beliefs_before, choose_samples, expected_losses
from nevis_stream.errors import BadInput, unknown
from nevis_stream.queries.oracle import NO_LABEL, Query, Responses
from nevis_stream.seeds import generator
from nevis_stream.storage import checked_lines, exclusive
from nevis_stream.storage.faults import lock
from nevis_stream.storage.identity import as_lines, write_once
from nevis_stream.storage.reading import read_json
from nevis_stream.wording import plural

DRAWS, LABELS = "draws.jsonl", "labels.jsonl"
_OTHER = (
    "this directory contains another session ({difference}). Choose another --out, or add samples"
    " to that session with --continue. (digest stands for the samples and the models'"
    " probabilities.)"
)
_BUSY = "is drawing samples in this session. Wait for it."


class Session:
    """A session in a directory.

    Args:
      directory: of the session.

    Raises:
      BadInput: there is no session, or its files are damaged.
    """

    def __init__(self, directory: Path):
        self.directory = directory
        file = directory / SETTINGS
        try:
            self.settings = SessionSettings(**read_json(file))
            self.settings.check()
        except FileNotFoundError:
            raise BadInput(
                f"{directory}: there is no labelling session here. To begin one: python -m"
                f" launch.label start --model=… --pool=… --out={directory}"
            ) from None
        except (ValueError, TypeError) as error:
            raise BadInput(f"{file}: damaged ({error}).") from None

    @classmethod
    def start(cls, directory: Path, settings: SessionSettings, samples: Generation) -> "Session":
        """Begins a session, or opens it if it was begun with the same settings.

        Raises:
          BadInput: the directory has another session.
        """
        with exclusive(directory / "lock", "is starting a session here."):
            if not (directory / SETTINGS).exists():
                for name in (DRAWS, LABELS, "generation-1"):
                    if (directory / name).exists():
                        raise BadInput(
                            f"{directory}: contains the {name} of a session, but no {SETTINGS}. Put"
                            " a copy of it back, or choose another --out."
                        )
                write_generation(directory, 0, samples)
            write_once(directory / SETTINGS, as_lines(vars(settings)), _OTHER)
        return cls(directory)

    def grow(self, samples: Generation) -> None:
        """Adds samples; earlier draws and labels keep their probabilities. If the samples that were
        added last are the same, with the same predictions, nothing is done.

        Raises:
          BadInput: a sample is in the session already, or there are other models or classes.
        """
        with exclusive(self.directory / "lock", _BUSY):
            last = self.generations[-1]
            if last.first and samples.digest == last.digest:
                return
            if twice := set(samples.ids) & set(self.ids):
                raise BadInput(
                    f"{samples.pool}: {len(twice)} of its {len(samples.ids)} samples are in the"
                    f" session already, for example {min(twice)!r}. Give a pool of new samples"
                    " only. Those of an .npz are named by their positions: where they are other"
                    " images, save them as images_PART and give FILE.npz:PART."
                )
            number = len(self.generations)
            write_generation(self.directory, number, samples)
        for name in ("generations", "ids", "positions", "pools"):
            vars(self).pop(name, None)

    @cached_property
    def generations(self) -> list[Generation]:
        """The samples, by when they were added."""
        generations: list[Generation] = []
        first = 0
        while (folder := self.directory / f"generation-{len(generations)}").is_dir():
            generations.append(read_generation(folder, first))
            shape = generations[-1].predictions.shape
            expected = len(self.settings.models), len(generations[-1].ids), self.class_count
            if shape != expected:
                raise BadInput(
                    f"{folder}: damaged (the models' probabilities have the shape {list(shape)};"
                    f" expected {list(expected)})."
                )
            first += len(generations[-1].ids)
        if not generations:
            raise BadInput(f"{self.directory}: generation-0 is missing; the session is damaged.")
        return generations

    @property
    def model_names(self) -> list[str]:
        """The tested models, as a person in the working directory would name them."""
        return [show_value(model) for model in self.settings.models]

    @property
    def class_count(self) -> int:
        """Number of classes."""
        return len(self.settings.classes)

    @cached_property
    def ids(self) -> list[str]:
        """Ids of all samples."""
        return [sample for generation in self.generations for sample in generation.ids]

    @cached_property
    def positions(self) -> dict[str, int]:
        """The position of each id."""
        return {sample: row for row, sample in enumerate(self.ids)}

    @cached_property
    def pools(self) -> list[list[Pool]]:
        """The pool of each model in each generation."""
        return [
            [Pool.of(model, self.settings.loss) for model in generation.predictions]
            for generation in self.generations
        ]

    def draws(self) -> list[Draw]:
        """Returns all draws, in order.

        Raises:
          BadInput: the file is damaged.
        """
        return recorded_draws(self.directory / DRAWS, self.generations)

    def labels(self) -> dict[int, int]:
        """Returns the class of each labelled sample by its position, `NO_LABEL` of one that nobody
        can label; corrections replace.

        Raises:
          BadInput: the file is damaged.
        """
        return recorded_labels(self.directory / LABELS, self.positions, self.class_count)

    def counts(self) -> str:
        """Returns how many samples have a label, and how many nobody can label, in words."""
        labels = list(self.labels().values())
        failed = labels.count(NO_LABEL)
        without = f"; {plural(failed, 'sample')} nobody can label" if failed else ""
        return f"{len(labels) - failed:,} of {len(self.ids):,} samples have a label{without}"

    def logs(self) -> tuple[list[Draw], dict[int, int]]:
        """Returns `draws` and `labels`.

        Raises:
          BadInput: one of the files lacks what the other one was made with.
        """
        labels, draws = self.labels(), self.draws()
        seen = max((draw.labels for draw in draws), default=0)
        if len(labels) < seen:
            labels = self.labels()  # draws that were made in between know more
        if len(labels) < seen:
            raise BadInput(
                f"{self.directory / LABELS}: damaged (it has {plural(len(labels), 'label')}; the"
                f" last samples were drawn with {seen}). Put a copy of the file back, or record the"
                " csv files again."
            )
        self._list_drawn(draws, labels)
        return draws, labels

    def _list_drawn(self, draws: Sequence[Draw], labels: Mapping[int, int]) -> set[int]:
        """Returns the positions of all drawn samples; BadInput if a labelled one is not there."""
        drawn = {int(sample) for draw in draws for sample in draw.samples}
        if lost := len(labels.keys() - drawn):
            raise BadInput(
                f"{self.directory / DRAWS}: damaged (the draws of {plural(lost, 'labelled sample')}"
                " are missing). Put a copy of the file back."
            )
        return drawn

    def waiting(self) -> list[int]:
        """Returns the positions of drawn samples without a label, in the order of the draws."""
        return _without_label(*self.logs())

    def next(self, count: int) -> tuple[int, list[int]]:
        """Draws samples, unless enough drawn ones have no label yet.

        Args:
          count: number of samples to label: those that wait, and new ones to fill up.

        Returns: the number of the round, and the positions of the samples.

        Raises:
          RunLocked: another process draws.
          BadInput: every sample has a label.
        """
        if count < 1:
            raise BadInput(f"--count={count}: at least one sample.")
        with exclusive(self.directory / "lock", _BUSY):
            draws, labels = self.logs()
            waiting = _without_label(draws, labels)
            number = max((draw.round for draw in draws), default=0)
            if len(waiting) < count:
                asked = sum(len(draw.samples) for draw in draws)
                new = min(count - len(waiting), len(self.ids) - asked)
                if new:
                    number += 1
                    self._draw(number, new, draws, labels)
                    waiting = self.waiting()
            if not waiting:
                raise BadInput(f"{self.directory}: every sample of the pool has a label.")
            return number, waiting[:count]

    def _draw(
        self, number: int, count: int, draws: Sequence[Draw], labels: Mapping[int, int]
    ) -> None:
        """Appends the draws of a round, the shares of generations in proportion to what is left."""
        none = np.empty(0, np.int64)
        earlier = [
            np.concatenate([none, *(draw.samples for draw in draws if draw.generation == place)])
            for place in range(len(self.generations))
        ]
        left = [len(g.ids) - len(e) for g, e in zip(self.generations, earlier, strict=True)]
        drawn_here: list[dict[str, Any]] = []
        for place, share in enumerate(_apportion(left, count)):
            if not share:
                continue
            generation, pools = self.generations[place], self.pools[place]
            members = self.members(place, labels, draws)
            drawn_before = earlier[place] - generation.first
            free = np.ones(len(generation.ids), bool)
            free[drawn_before] = False
            random = generator(self.settings.seed, "draw", number, place)
            drawn = ProportionalSampling(uniform=self.settings.uniform)
            query = choose_samples(pools, members, free, share, random, self.settings.rule, drawn)
            samples = query.samples[0]
            beliefs = [
                beliefs_before(expected_losses(pool, members), drawn_before, samples)
                for pool in pools
            ]
            drawn_here.append(
                {
                    "generation": place,
                    "samples": (samples + generation.first).tolist(),
                    "probabilities": query.probabilities[0].tolist(),
                    "predicted": [predicted.tolist() for predicted, _ in beliefs],
                    "remaining": [remaining.tolist() for _, remaining in beliefs],
                }
            )
        line = {"round": number, "labels": len(labels), "draws": drawn_here}
        checked_lines.append(self.directory / DRAWS, line)

    def members(self, place: int, labels: Mapping[int, int], draws: Sequence[Draw]) -> np.ndarray:
        """Returns the surrogate's probabilities [e, n, c] on a generation, from its labels."""
        generation = self.generations[place]
        pairs = [
            (int(sample), probability)
            for draw in draws
            if draw.generation == place
            for sample, probability in zip(draw.samples, draw.probabilities, strict=True)
            if labels.get(int(sample), NO_LABEL) != NO_LABEL
        ]
        order = [sample for sample, _ in pairs]
        samples = np.array(order, np.int64).reshape(1, -1) - generation.first
        values = np.array([labels[sample] for sample in order], np.int32).reshape(1, -1)
        query = Query(samples, np.array([each for _, each in pairs]).reshape(1, -1))
        surrogate = build_surrogate(
            self.settings.surrogate, generation.material, self.settings.seed
        )
        return surrogate(Responses(query, values)).probabilities

    def record(
        self,
        answers: Mapping[str, int],
        source: str,
        correct: bool = False,
        lines: Mapping[str, str] | None = None,
    ) -> int:
        """Adds labels, all or none, and returns how many are new or changed.

        Args:
          answers: the class of each sample, by id, or `NO_LABEL` if nobody can tell.
          source: the name of their file.
          correct: whether a label may replace another one of the same sample.
          lines: by sample, what messages name instead of `source`, for example a line of the file.

        Raises:
          BadInput: a sample is unknown, was not drawn, or has another label already.
        """
        with _waiting_lock(self.directory / "labels.lock"):
            labels = self.labels()  # which may be fewer than there were: here they come back
            drawn, new = self._list_drawn(self.draws(), labels), {}
            for sample, label in answers.items():
                where = (lines or {}).get(sample, source)
                if sample not in self.positions:
                    valid = unknown("sample", sample, _some([self.ids[row] for row in drawn]))
                    raise BadInput(f"{where}: {valid} Nothing of this file was recorded.")
                row = self.positions[sample]
                if row not in drawn:
                    raise BadInput(
                        f"{where}: sample {sample!r} was not drawn, so its label cannot be used;"
                        " labels of other samples would bias the estimates. Remove its row. Nothing"
                        " of this file was recorded."
                    )
                if labels.get(row) == label:
                    continue
                if row in labels and not correct:
                    before, now = map(self.settings.class_name, (labels[row], label))
                    raise BadInput(
                        f"{where}: sample {sample!r} is {now!r}, but {before!r} was recorded"
                        " before. Nothing of this file was recorded. If the new label is right,"
                        " repeat the command with --correct."
                    )
                new[sample] = label
            if new:
                written = {
                    each: None if label == NO_LABEL else label for each, label in new.items()
                }
                checked_lines.append(self.directory / LABELS, {"source": source, "labels": written})
        return len(new)


def _without_label(draws: Sequence[Draw], labels: Mapping[int, int]) -> list[int]:
    drawn = [int(sample) for draw in draws for sample in draw.samples]
    return [sample for sample in drawn if sample not in labels]


def _apportion(left: Sequence[int], count: int) -> list[int]:
    """Returns shares of a number in proportion to others, by largest remainders.

    >>> _apportioned([30, 10], 5)
    [4, 1]
    """
    exact = np.array(left) * count / max(sum(left), 1)
    shares = np.floor(exact).astype(int)
    order = np.argsort(-(exact - shares), kind="stable")
    shares[order[: count - shares.sum()]] += 1
    return shares.tolist()


def _some(ids: Sequence[str]) -> Sequence[str]:
    return ids if len(ids) <= 20 else [*ids[:20], "…"]


@contextlib.contextmanager
def _waiting_lock(path: Path) -> Iterator[None]:
    """Holds a lock, and waits for it: recording labels takes a moment."""
    with open(path, "a+") as file:
        lock(file, path, fcntl.LOCK_EX)
        yield
