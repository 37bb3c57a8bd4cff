"""A labelling session: a directory with what is known of a pool, the draws, and the labels.

    session.json      settings; written last by `start`, and never changed
    generation-0/     ids and arrays of the first samples; generation-1, … of those added later
    draws.jsonl       one line for each round of draws, with probabilities and expected losses
    labels.jsonl      one line for each file of labels
    rounds/003/       to_label.csv, label.html and contact_sheet.png of a draw

What the two logs have in common with those of other sessions is in `queries.session_log`.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from nevis_stream.active_testing.acquisition_functions import ProportionalSampling
from nevis_stream.active_testing.labelling.files import (
    Draw,
    PoolPart,
    SessionSettings,
    from_session,
    parse_draws,
    parse_labels,
    read_pool_part,
    show_path,
    write_pool_part,
)
from nevis_stream.active_testing.pool import Pool
from nevis_stream.active_testing.surrogates import build_surrogate
from nevis_stream.active_testing.testing import choose_samples, expect_before, expect_losses
from nevis_stream.errors import BadInput, plural
from nevis_stream.queries.oracle import NO_LABEL, Query, Responses
from nevis_stream.queries.session_log import History, Line, MessageTerms, SessionLog
from nevis_stream.seeds import generator
from nevis_stream.storage.reading import locate
from nevis_stream.storage.record import as_lines

DRAWS, LABELS = "draws.jsonl", "labels.jsonl"
_OTHER = (
    "this directory contains another session ({difference}). Choose another --out, or add samples"
    " to that session with --continue. (digest stands for the samples and the models'"
    " probabilities.)"
)
_WORDS = MessageTerms(
    session="labelling session",
    answer="label",
    asked="drawn",
    busy="is drawing samples in this session. Wait for it.",
    again="record the csv files again",
)


class Session:
    """A session in a directory.

    Args:
      directory: of the session.

    Raises:
      BadInput: there is no session, or its files are damaged.
    """

    def __init__(self, directory: Path):
        self.directory = directory
        self.log = _open_log(
            directory,
            lambda line, _: parse_draws(line, self.pool_parts),
            lambda line: parse_labels(line, self.positions, self.class_count),
        )
        begin = f"python -m launch.label start --model=… --pool=… --out={directory}"
        self.settings = self.log.read_settings(_make_settings, begin)

    @classmethod
    def start(cls, directory: Path, settings: SessionSettings, samples: PoolPart) -> "Session":
        """Begins a session, or opens it if it was begun with the same settings.

        Raises:
          BadInput: the directory has another session.
        """
        log = _open_log(directory)
        kept = settings.change_paths(lambda path: from_session(path, directory))
        if log.settings.exists() and log.read_settings(_make_settings, "") == settings:
            kept = settings  # an earlier version kept absolute paths
        log.start(
            lambda: as_lines(vars(kept)),
            _OTHER,
            lambda: write_pool_part(directory, 0, samples),
            ["generation-1"],
        )
        return cls(directory)

    def grow(self, samples: PoolPart) -> None:
        """Adds samples; earlier draws and labels keep their probabilities. If the samples that were
        added last are the same, with the same predictions, nothing is done.

        Raises:
          BadInput: a sample is in the session already, or there are other models or classes.
        """
        with self.log.lock_rounds():
            last = self.pool_parts[-1]
            if last.first and samples.digest == last.digest:
                return
            if twice := set(samples.ids) & set(self.ids):
                raise BadInput(
                    f"{samples.pool}: {len(twice)} of its {len(samples.ids)} samples are in the"
                    f" session already, for example {min(twice)!r}. Give a pool of new samples"
                    " only. Those of an .npz are named by their positions: where they are other"
                    " images, save them as images_PART and give FILE.npz:PART."
                )
            number = len(self.pool_parts)
            write_pool_part(self.directory, number, samples)
        for name in ("pool_parts", "ids", "positions", "pools"):
            vars(self).pop(name, None)

    @cached_property
    def pool_parts(self) -> list[PoolPart]:
        """The samples, by when they were added."""
        pool_parts: list[PoolPart] = []
        first = 0
        while (folder := self.directory / f"generation-{len(pool_parts)}").is_dir():
            pool_parts.append(read_pool_part(folder, first))
            shape = pool_parts[-1].predictions.shape
            expected = len(self.settings.models), len(pool_parts[-1].ids), self.class_count
            if shape != expected:
                raise BadInput(
                    f"{folder}: damaged (the models' probabilities have the shape {list(shape)};"
                    f" expected {list(expected)})."
                )
            first += len(pool_parts[-1].ids)
        if not pool_parts:
            raise BadInput(f"{self.directory}: generation-0 is missing; the session is damaged.")
        if pool_parts[0].digest != self.settings.digest:
            raise BadInput(
                f"{self.directory}: generation-0 is not what the session began with. Put a copy of"
                " it back."
            )
        return pool_parts

    @property
    def models(self) -> list[str]:
        """Absolute paths of the tested models."""
        return [locate(model, self.directory) for model in self.settings.models]

    @property
    def model_names(self) -> list[str]:
        """The tested models, as a person in the working directory would name them."""
        return [*map(show_path, self.models)]

    @property
    def class_count(self) -> int:
        """Number of classes."""
        return len(self.settings.classes)

    @cached_property
    def ids(self) -> list[str]:
        """Ids of all samples."""
        return [sample for pool_part in self.pool_parts for sample in pool_part.ids]

    @cached_property
    def positions(self) -> dict[str, int]:
        """The position of each id."""
        return {sample: row for row, sample in enumerate(self.ids)}

    @cached_property
    def pools(self) -> list[list[Pool]]:
        """The pool of each model in each pool part."""
        return [
            [Pool.of(model, self.settings.loss) for model in pool_part.predictions]
            for pool_part in self.pool_parts
        ]

    def draws(self) -> Sequence[Draw]:
        """Returns all draws, in order.

        Raises:
          BadInput: the file is damaged.
        """
        return self.log.read(complete=False).rounds

    def labels(self) -> Mapping[int, int]:
        """Returns the class of each labelled sample by its position, `NO_LABEL` of one that nobody
        can label; corrections replace.

        Raises:
          BadInput: the file is damaged.
        """
        return self.log.read(complete=False).answers

    def history(self) -> History[Draw, int, int]:
        """Returns draws and labels, by the positions of samples.

        Raises:
          BadInput: one of the files is damaged, or lacks what the other one was made with.
        """
        return self.log.read()

    def counts(self) -> str:
        """Returns how many samples have a label, and how many nobody can label, in words."""
        labels = list(self.labels().values())
        failed = labels.count(NO_LABEL)
        without = f"; {plural(failed, 'sample')} nobody can label" if failed else ""
        return f"{len(labels) - failed:,} of {len(self.ids):,} samples have a label{without}"

    def waiting(self) -> list[int]:
        """Returns the positions of drawn samples without a label, in the order of the draws."""
        return self.history().waiting

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
        with self.log.lock_rounds():
            past = self.history()
            draws, labels, waiting = past.rounds, past.answers, past.waiting
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
        """Appends the draws of a round, the counts of pool parts in proportion to what is left."""
        none = np.empty(0, np.int64)
        earlier = [
            np.concatenate([none, *(draw.samples for draw in draws if draw.pool_part == place)])
            for place in range(len(self.pool_parts))
        ]
        left = [
            len(part.ids) - len(drawn) for part, drawn in zip(self.pool_parts, earlier, strict=True)
        ]
        drawn_here: list[dict[str, Any]] = []
        for place, part_count in enumerate(_apportion(left, count)):
            if not part_count:
                continue
            pool_part, pools = self.pool_parts[place], self.pools[place]
            members = self.members(place, labels, draws)
            drawn_before = earlier[place] - pool_part.first
            free = np.ones(len(pool_part.ids), bool)
            free[drawn_before] = False
            random = generator(self.settings.seed, "draw", number, place)
            sampling = ProportionalSampling(uniform=self.settings.uniform)
            query = choose_samples(
                pools, members, free, part_count, random, self.settings.rule, sampling
            )
            samples = query.samples[0]
            expected = [
                expect_before(expect_losses(pool, members), drawn_before, samples) for pool in pools
            ]
            drawn_here.append(
                {
                    "generation": place,
                    "samples": (samples + pool_part.first).tolist(),
                    "probabilities": query.probabilities[0].tolist(),
                    "predicted": [predicted.tolist() for predicted, _ in expected],
                    "remaining": [remaining.tolist() for _, remaining in expected],
                }
            )
        line = {"round": number, "labels": len(labels), "draws": drawn_here}
        self.log.add_round(line)

    def members(self, place: int, labels: Mapping[int, int], draws: Sequence[Draw]) -> np.ndarray:
        """Returns the surrogate's probabilities [e, n, c] on a pool part, from its labels."""
        pool_part = self.pool_parts[place]
        pairs = [
            (int(sample), probability)
            for draw in draws
            if draw.pool_part == place
            for sample, probability in zip(draw.samples, draw.probabilities, strict=True)
            if labels.get(int(sample), NO_LABEL) != NO_LABEL
        ]
        order = [sample for sample, _ in pairs]
        samples = np.array(order, np.int64).reshape(1, -1) - pool_part.first
        values = np.array([labels[sample] for sample in order], np.int32).reshape(1, -1)
        query = Query(samples, np.array([each for _, each in pairs]).reshape(1, -1))
        surrogate = build_surrogate(self.settings.surrogate, pool_part.data, self.settings.seed)
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
        with self.log.lock_answers():
            new = self.log.select_new(
                answers,
                self.positions,
                lambda label: repr(self.settings.class_name(label)),
                lambda sample: (lines or {}).get(sample, source),
                correct,
            )
            if new:
                written = {
                    each: None if label == NO_LABEL else label for each, label in new.items()
                }
                self.log.add_answers({"source": Path(source).name, "labels": written})
        return len(new)


def _open_log(
    directory: Path,
    parse_draws: Callable[[Line, Sequence[Draw]], Sequence[Draw]] = lambda line, _: [],
    parse_labels: Callable[[Line], Mapping[int, int]] = lambda line: {},
) -> SessionLog[Draw, int, int]:
    """Returns the log of a session; one that only starts reads neither draws nor labels."""
    return SessionLog(directory, DRAWS, LABELS, _WORDS, parse_draws, parse_labels)


def _make_settings(values: dict[str, Any]) -> SessionSettings:
    settings = SessionSettings(**values)
    settings.check()
    return settings


def _apportion(left: Sequence[int], count: int) -> list[int]:
    """Divides a whole number in proportion to others, by largest remainders.

    >>> _apportion([30, 10], 5)
    [4, 1]
    """
    exact = np.array(left) * count / max(sum(left), 1)
    counts = np.floor(exact).astype(int)
    order = np.argsort(-(exact - counts), kind="stable")
    counts[order[: count - counts.sum()]] += 1
    return counts.tolist()
