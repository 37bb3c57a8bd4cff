"""Fitted methods that are stored with a cache, for use until its known models change."""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from nevis_stream.cost.compute import Compute
from nevis_stream.cost.meter import total
from nevis_stream.dynamic_evaluation import positions
from nevis_stream.dynamic_evaluation.known_models import KnownModels, digest
from nevis_stream.dynamic_evaluation.method import Evaluator, Method
from nevis_stream.dynamic_evaluation.policy import Key
from nevis_stream.errors import DamagedCheckpoint
from nevis_stream.evaluation_cache.additions import Addition
from nevis_stream.storage import checkpoint, recover
from nevis_stream.storage.checkpoint import Checkpoint, Tree
from nevis_stream.storage.record import json_object

FOLDER = "fits"  # in the cache's directory
VERSION = 6  # of the content of fits: an older fit is not used
ERRORS = "errors"  # the name of a part that only a choice of methods needs, with the budget
FIT = "fit"  # the name of the part that does not depend on the budget


def stored_name(name: str, known: KnownModels) -> str:
    """Returns under which name a method's fit to known models is stored: earlier versions stored
    fits of multi-label data sets for single columns, not for whole images."""
    if (prices := known.facts.prices) is not None:
        return f"{name}-{prices.unit}"
    return name if known.facts.image is None else f"{name}-images"


class StoredFit:
    """The fit of a method that is stored with a cache; it is replaced when the known models change.

    Its cost is stored with it and charged to the next addition, and to no later one. So an addition
    that was killed after its fit has the same account when it is started again.

    Args:
      directory: of the fit: `fits/METHOD` in a cache, or `fits/METHOD-samples`.
      method: the method to use with these known models (`Method.for_known`).
      known: the known models.
      seed: of the fit.
      additions: the accounts so far, which show what has been charged.

    Attributes:
      outdated: whether what was stored is a fit to other known models, or of another seed.
    """

    outdated = False

    def __init__(
        self,
        directory: Path,
        method: Method,
        known: KnownModels,
        seed: int,
        additions: Sequence[Addition],
    ):
        self._path, self._method = directory, method
        self._unfinished = directory.with_name(f"{directory.name}.unfinished")
        about = json.dumps([VERSION, method.name, seed, digest(known)])
        self.key = hashlib.sha256(about.encode()).hexdigest()[:16]
        budgets = [str(each.budget) for each in additions if each.fit == self.key]
        self._charged = {FIT, *budgets} if budgets else set()
        self.tree, self._flops = self._read()

    def _read(self) -> tuple[Tree | None, dict[str, int]]:
        """Returns the stored fit and the FLOPs of its parts; None and {} if there is no fit, or if
        it is damaged or has another key.
        """
        recover(self._path)
        try:
            saved = Checkpoint(self._path)
            if saved.record["key"] != self.key:
                self.outdated = True
                return None, {}
            return saved.load(FIT), json_object(saved.record["flops"])
        except (DamagedCheckpoint, KeyError, ValueError):
            return None, {}

    def evaluator(self, known: KnownModels, budget: int, key: Key, ctx: Compute) -> Evaluator:
        """Returns an evaluator for a budget: from the stored fit, or from a new fit that is stored.

        Args:
          known: the known models as the method reads them.
          budget: number of samples asked of each new model.
          key: a JAX key made from the seed.
          ctx: counts FLOPs, including those of the stored fit that were not charged before.
        """
        evaluator = self._fitted(known, budget, key, ctx)
        positions.remove(self._unfinished)  # of a process killed after it had stored the fit
        return evaluator

    def _fitted(self, known: KnownModels, budget: int, key: Key, ctx: Compute) -> Evaluator:
        for part in self._flops.keys() - self._charged:
            if not part.startswith(ERRORS):  # these are part of the cost of a choice
                ctx.charge(self._flops[part])
        before = total(ctx.meter.counts())
        if self.tree is None:
            with positions.kept_in(self._unfinished):
                evaluator = self._method.fit(known, None, key, ctx)
            self._write(FIT, evaluator, before)
        else:
            evaluator = Evaluator(self._method, known, self.tree, key, ctx)
        before = total(ctx.meter.counts())
        with positions.kept_in(self._unfinished):
            evaluator.fit_budget(budget)
        if str(budget) not in self._flops:
            self._write(str(budget), evaluator, before)
        return evaluator

    def errors(self, known: KnownModels, budget: int, key: Key, ctx: Compute) -> np.ndarray:
        """Returns the method's cross-validation errors at a budget, float64[k], after storing them
        with the fit; arguments as of `evaluator`.
        """
        evaluator = self._fitted(known, budget, key, ctx)
        part, before = f"{ERRORS}-{budget}", total(ctx.meter.counts())
        with positions.kept_in(self._unfinished):
            errors = evaluator.errors(budget)
        if part not in self._flops:
            self._write(part, evaluator, before)
        positions.remove(self._unfinished)
        return errors

    def flops(self, budget: int) -> int:
        """Returns the FLOPs of the fit, for one budget, and of its cross-validation errors."""
        parts = FIT, str(budget), f"{ERRORS}-{budget}"
        return sum(self._flops.get(part, 0) for part in parts)

    def errors_flops(self, budget: int) -> int:
        """Returns the FLOPs of the cross-validation errors that only a choice of methods needs."""
        return self._flops.get(f"{ERRORS}-{budget}", 0)

    def _write(self, part: str, evaluator: Evaluator, before: int) -> None:
        self._flops[part] = total(evaluator.ctx.meter.counts()) - before
        record = {"key": self.key, "flops": self._flops}
        checkpoint.write(self._path, {FIT: evaluator.tree}, record)
        positions.remove(self._unfinished)
