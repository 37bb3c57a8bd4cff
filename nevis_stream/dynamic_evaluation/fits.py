"""Fitted methods that are stored with a cache, for use until its known models change: a check,
before a fit begins, that there is memory for it; evaluation with a fit; and what both cost.

While a method is fitted, its stages are reported, and trainings keep positions on disk, so that
they continue after a kill, until their fit is stored.
"""

import contextlib
import hashlib
import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import jax
import numpy as np

from nevis_stream.cost.compute import Compute
from nevis_stream.cost.meter import total
from nevis_stream.dynamic_evaluation.estimates import Estimates
from nevis_stream.dynamic_evaluation.known_models import digest
from nevis_stream.dynamic_evaluation.method import Evaluator, Method
from nevis_stream.dynamic_evaluation.policy import Key
from nevis_stream.errors import BadInput, DamagedCheckpoint
from nevis_stream.progress import Progress
from nevis_stream.queries.board import Board
from nevis_stream.queries.matrix import ArrayMatrix, Matrix
from nevis_stream.queries.oracle import Cost, Oracle
from nevis_stream.storage import checkpoint, recover
from nevis_stream.storage.checkpoint import Checkpoint, Tree
from nevis_stream.storage.record import check_object
from nevis_stream.training.loop import keep_positions

# bytes for each cell of a known model, and for compiled programs, as measured for `recommended`
BYTES_EACH, PROGRAMS = 30, 5e8
MOST_MODELS = 512  # that `recommended` learns from; of others only the values are in memory
MEMORY_INFO = Path("/proc/meminfo")


def read_for_method(method: Method, known: Matrix, new: int) -> Matrix:
    """Returns the known models in the form that a method reads: in the cache, or as a matrix in
    memory if the method needs the whole matrix.

    Args:
      method: the method.
      known: the known models.
      new: number of new models.

    Raises:
      BadInput: the method would need more memory than is free.
    """
    method = method.choose_for_known(known)
    if method.out_of_core:
        return known
    models, samples = known.shape
    _check_memory(
        _predict_bytes(models, samples, new),
        f"{method.name} learns from {models:,} × {samples:,} values in memory",
        "Give --method=sort_and_search or stratified_mean, which leave them in the cache.",
    )
    return ArrayMatrix(known.matrix(), known.groups, known.facts)


def read_to_transpose(method: Method, known: Matrix, new: int) -> np.ndarray:
    """Returns the known models' values, [m, n], for a method that adds new samples: it learns from
    their transpose.

    Args:
      method: the method.
      known: the known models.
      new: number of new samples.

    Raises:
      BadInput: this needs more memory than is free.
    """
    models, samples = known.shape
    # the values, which of them are known, those that are learned from, and their transpose
    needed = models * (4 * samples + 8 * new)
    hint = "A machine with more memory is needed"
    if not method.out_of_core:
        needed += _predict_bytes(samples, models, new)
        hint += ", or a method that needs less: --method=sort_and_search"
    work = f"{method.name} adds {new:,} samples from {models:,} × {samples:,} values in memory"
    _check_memory(needed, work, f"{hint}.")
    return known.matrix()


def _predict_bytes(rows: int, columns: int, new: int) -> float:
    """Returns the bytes that a fit to a matrix takes, and the estimates of new models."""
    return PROGRAMS + columns * (2 * rows + BYTES_EACH * min(rows, MOST_MODELS) + 100 * new)


def _check_memory(needed: float, work: str, hint: str) -> None:
    free = get_free_memory()
    if free is not None and needed > free:
        raise BadInput(
            f"{work}: about {needed / 1e9:.1f} GB, but only {free / 1e9:.1f} GB are free. {hint}"
        )


def get_free_memory() -> int | None:
    """Returns the bytes of memory that a process can still get; None if the system does not
    report it.
    """
    if not MEMORY_INFO.exists():
        return None
    lines = dict(line.split(":", 1) for line in MEMORY_INFO.read_text().splitlines())
    return int(lines["MemAvailable"].split()[0]) * 1024 if "MemAvailable" in lines else None


STAGES = {  # what is shown of each phase
    "train": "fitting",
    "validate": "cross-validation",
    "select": "asking",
    "predict": "predicting",
}


class _StagedContext(Compute):
    """A context that reports each phase as it begins, except those inside another phase: the fits
    of a cross-validation are part of it.
    """

    report: Progress
    _inside = False
    _stage = ""

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """As `Compute.phase`."""
        outermost, self._inside = not self._inside, True
        if outermost:
            self._stage = STAGES.get(name, name)
            self.report.stage(self._stage)
        try:
            with super().phase(name):
                yield
        finally:
            self._inside = not outermost

    def progress(self, step: int, steps: int) -> None:
        """Reports every tenth of a long training, with the stage."""
        tenths = 10 * step // steps
        if tenths > 10 * (step - 1) // steps:
            self.report.stage(f"{self._stage}, {tenths}0% of a training")


def make_staged_context(progress: Progress) -> Compute:
    """Returns a context like `method.make_context()` that reports the stages of an evaluation.

    Args:
      progress: is told the stages, of the values of `STAGES`, and each tenth of a long training.
    """
    ctx = _StagedContext.standalone(path=("dynamic evaluation",))
    ctx.report = progress
    return ctx


FOLDER = "fits"  # in the directory of a cache
VERSION = 6  # of the content of fits: an older fit is not used
FIT = "fit"  # the name of the part that does not depend on the budget


class Charged(Protocol):
    """What of the cost of fits an earlier addition has paid for: the key of its fit."""

    budget: int
    fit: str | None


class Fits:
    """Fits to the known models of one board, by name: on disk beside a
    cache, or in memory as long as the board.

    Args:
      directory: of the cache; None if there is none.
      charged: the additions to the cache so far.
      memory: where new fits are kept instead of on disk; those of the directory are read.
    """

    def __init__(
        self,
        directory: Path | None = None,
        charged: Sequence[Charged] = (),
        memory: dict[str, Any] | None = None,
    ):
        self.charged, self._memory = charged, memory
        self._folder = None if directory is None else directory / FOLDER

    def part(self, number: int | None) -> "Fits":
        """Returns where fits to a part of the samples are kept, by its number; None: to all."""
        if number is None:
            return self
        name = f"part-{number}"
        memory = None if self._memory is None else self._memory.setdefault(name, {})
        return Fits(None if self._folder is None else self._folder / name, self.charged, memory)

    def read(self, name: str) -> tuple[dict[str, Any], Callable[[], Tree]] | None:
        """Returns the record of a fit and what loads its tree; None if there is none, or a damaged
        one.
        """
        if self._memory is not None and name in self._memory:
            record, tree = self._memory[name]
            return record, lambda: tree
        if self._folder is None:
            return None
        recover(self._folder / name)
        try:
            saved = Checkpoint(self._folder / name)
            return saved.record, lambda: saved.load(FIT)
        except (DamagedCheckpoint, KeyError, ValueError):
            return None

    def write(self, name: str, record: dict[str, Any], tree: Tree) -> None:
        """Keeps a fit in place of an earlier one."""
        if self._memory is not None:
            self._memory[name] = record, tree
        elif self._folder is not None:
            checkpoint.write(self._folder / name, {FIT: tree}, record)

    @contextlib.contextmanager
    def keep_positions(self, name: str) -> Iterator[None]:
        """Inside the block trainings of a fit keep their positions where fits are kept on disk."""
        if self._memory is not None or self._folder is None:
            yield
            return
        with keep_positions(self._folder / f"{name}.unfinished"):
            yield

    def remove_positions(self, name: str) -> None:
        """Deletes the positions of a fit."""
        if self._memory is None and self._folder is not None:
            shutil.rmtree(self._folder / f"{name}.unfinished", ignore_errors=True)


def open_fits(board: Board, kept: bool = False) -> Fits:
    """Returns where fits to a board are kept: in memory, after those of its cache; or, if `kept`,
    in its cache, where nothing of their cost has been charged.
    """
    return Fits(board.directory, (), None if kept and board.directory else board.fits)


class StoredFit:
    """The fit of a method that is kept with the known models; it is replaced when these change.

    Its cost is kept with it and charged to the next addition, and to no later one. So an addition
    that was killed after its fit has the same record when it is started again.

    Args:
      fits: where it is kept.
      name: of the fit there, see `find_fit`.
      method: the method to use with these known models (`Method.choose_for_known`).
      known: the known models.
      seed: of the fit.

    Attributes:
      outdated: whether what was stored is a fit to other known models, or of another seed.
    """

    outdated = False

    def __init__(self, fits: Fits, name: str, method: Method, known: Matrix, seed: int):
        self._fits, self._name, self._method = fits, name, method
        about = json.dumps([VERSION, method.name, seed, digest(known)])
        self.key = hashlib.sha256(about.encode()).hexdigest()[:16]
        budgets = [str(each.budget) for each in fits.charged if each.fit == self.key]
        self._charged = {FIT, *budgets} if budgets else set()
        self.tree, self._flops = self._read()

    def _read(self) -> tuple[Tree | None, dict[str, int]]:
        """Returns the stored fit and the FLOPs of its parts; None and {} if there is no fit, or if
        it is damaged or has another key.
        """
        saved = self._fits.read(self._name)
        try:
            if saved is None:
                return None, {}
            record, load = saved
            if record["key"] != self.key:
                self.outdated = True
                return None, {}
            return load(), dict(check_object(record["flops"]))
        except (DamagedCheckpoint, KeyError, ValueError):
            return None, {}

    def make_evaluator(self, known: Matrix, budget: int, key: Key, ctx: Compute) -> Evaluator:
        """Returns an evaluator for a budget: from the stored fit, or from a new fit that is stored.

        Args:
          known: the known models as the method reads them.
          budget: number of samples asked of each new model.
          key: a JAX key made from the seed.
          ctx: counts FLOPs, including those of the stored fit that were not charged before.
        """
        evaluator = self._fit(known, budget, key, ctx)
        self._fits.remove_positions(self._name)  # of a process killed after it had stored the fit
        return evaluator

    def _fit(self, known: Matrix, budget: int, key: Key, ctx: Compute) -> Evaluator:
        for part in self._flops.keys() - self._charged:
            ctx.charge(self._flops[part])
        before = total(ctx.meter.counts())
        if self.tree is None:
            with self._fits.keep_positions(self._name):
                evaluator = self._method.fit(known, None, key, ctx)
            self._write(FIT, evaluator, before)
        else:
            evaluator = Evaluator(self._method, known, self.tree, key, ctx)
        before = total(ctx.meter.counts())
        with self._fits.keep_positions(self._name):
            evaluator.fit_budget(budget)
        if str(budget) not in self._flops:
            self._write(str(budget), evaluator, before)
        return evaluator

    def flops(self, budget: int) -> int:
        """Returns the FLOPs of the fit, for one budget."""
        return sum(self._flops.get(part, 0) for part in (FIT, str(budget)))

    def _write(self, part: str, evaluator: Evaluator, before: int) -> None:
        self._flops[part] = total(evaluator.ctx.meter.counts()) - before
        record = {"key": self.key, "flops": self._flops}
        self._fits.write(self._name, record, evaluator.tree)
        self._fits.remove_positions(self._name)


def find_fit(fits: Fits, method: Method, known: Matrix, seed: int, suffix: str = "") -> StoredFit:
    """Returns the fit of a method.

    Args:
      fits: where those to these known models are kept.
      method, known, seed: as of `StoredFit`.
      suffix: of the name, for fits that are used for something else.
    """
    if (prices := known.facts.prices) is not None:
        suffix = f"-{prices.unit}{suffix}"
    elif known.facts.image is not None:  # earlier versions stored fits for single columns
        suffix = f"-images{suffix}"
    return StoredFit(fits, f"{method.name}{suffix}", method, known, seed)


@dataclass(frozen=True)
class OwnCost:
    """FLOPs that a method computed itself: to fit it, and to evaluate new models with the fit."""

    fit: int
    evaluation: int


def evaluate(
    stored: StoredFit,
    known: Matrix,
    oracle: Oracle,
    new: int,
    budget: int,
    seed: int,
    progress: Progress,
) -> tuple[Estimates, OwnCost, Evaluator]:
    """Returns the estimates of new models, the FLOPs that the method computed itself, and the
    fitted method.

    Args:
      stored: the fit; it is made if it is not there.
      known: the known models as the method reads them.
      oracle: answers for the new models.
      new: their number.
      budget: number of samples asked of each.
      seed: of the method's random choices.
      progress: is told the stages.
    """
    evaluator, ctx, fit = prepare_evaluator(stored, known, budget, seed, progress)
    _, evaluation_key = jax.random.split(jax.random.key(seed))
    estimates = evaluator.evaluate(oracle, new, budget, evaluation_key)
    return estimates, OwnCost(fit, total(ctx.meter.counts()) - fit), evaluator


def prepare_evaluator(
    stored: StoredFit, known: Matrix, budget: int, seed: int, progress: Progress
) -> tuple[Evaluator, Compute, int]:
    """Returns the fitted method, the context that counts its FLOPs, and those of the fit."""
    if stored.outdated:
        progress.stage("the stored fit is of other known models or another seed; fitting anew")
    ctx = make_staged_context(progress)
    fit_key, _ = jax.random.split(jax.random.key(seed))
    evaluator = stored.make_evaluator(known, budget, fit_key, ctx)
    return evaluator, ctx, total(ctx.meter.counts())


def compute_cost(
    asked_before: Sequence[int],
    cells: Sequence[int],
    prices: Sequence[float | None],
    asking: Cost,
    own: int,
) -> dict[str, float | None]:
    """Returns FLOPs spent and saved, None where they are not known, and those of the method itself.

    Args:
      asked_before: for each model, the number of its cells that were observed before.
      cells: for each model, the number of all its cells.
      prices: for each model, FLOPs of an answer; None: not known.
      asking: cost of the answers.
      own: FLOPs that the method computed itself.
    """
    if None in prices or asking.flops is None:
        unknown = asking.flops is None or np.any(asked_before)
        spent = None if unknown else asking.flops + own
        return {"flops_spent": spent, "flops_saved": None, "flops_method": own}
    spent = asking.flops + own + float(np.dot(asked_before, prices))
    saved = float(np.dot(cells, prices)) - spent
    return {"flops_spent": spent, "flops_saved": saved, "flops_method": own}
