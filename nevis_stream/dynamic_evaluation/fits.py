"""Fitted methods that stay with a cache, and are used again while the known models are the same."""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

from nevis_stream.cost.meter import total
from nevis_stream.dynamic_evaluation.additions import Addition
from nevis_stream.dynamic_evaluation.known import Known, digest
from nevis_stream.dynamic_evaluation.method import Evaluator, Method
from nevis_stream.errors import DamagedCheckpoint
from nevis_stream.learner import Context
from nevis_stream.run_directory import checkpoint
from nevis_stream.run_directory.checkpoint import Checkpoint, Tree

FOLDER = "fits"  # in the cache's directory
VERSION = 1  # of what methods learn: an older fit is not used
FIT = "fit"  # the name of what does not depend on the budget


class StoredFit:
    """The fit of a method that a cache keeps, replaced when what it was fitted on changes.

    Its cost is stored with it and charged to the next addition, and to no later one. So an addition
    that was killed after its fit has the same account when it is started again.

    Args:
      directory: of the fit: `fits/METHOD` in a cache, or `fits/METHOD-samples`.
      method: the method that is really used (`Method.fitting`).
      known: the known models.
      seed: of the fit.
      additions: the accounts so far, which say what was charged.
    """

    def __init__(
        self,
        directory: Path,
        method: Method,
        known: Known,
        seed: int,
        additions: Sequence[Addition],
    ):
        self._path, self._method = directory, method
        about = json.dumps([VERSION, method.name, seed, digest(known)])
        self.key = hashlib.sha256(about.encode()).hexdigest()[:16]
        budgets = [str(each.budget) for each in additions if each.fit == self.key]
        self._charged = {FIT, *budgets} if budgets else set()
        self.tree, self._flops = self._read()

    def _read(self) -> tuple[Tree | None, dict[str, int]]:
        """Returns what was learned, None where there is no fit, or it is of something else, or
        damaged; and what its parts cost.
        """
        try:
            saved = Checkpoint(self._path)
            if saved.record["key"] != self.key:
                return None, {}
            return saved.load(FIT), saved.record["flops"]
        except (DamagedCheckpoint, KeyError):
            return None, {}

    def evaluator(self, known: Known, budget: int, key, ctx: Context) -> Evaluator:
        """Returns an evaluator for a budget: the stored one, or one that is fitted and stored.

        Args:
          known: the known models as the method reads them.
          budget: samples asked of each new model.
          key: a JAX key made from the seed.
          ctx: charges what is computed, and what was computed and not charged yet.
        """
        for part in self._flops.keys() - self._charged:
            ctx.charge(self._flops[part])
        before = total(ctx.meter.counts())
        if self.tree is None:
            evaluator = self._method.fit(known, None, key, ctx)
            self._write(FIT, evaluator, before)
        else:
            evaluator = Evaluator(self._method, known, self.tree, key, ctx)
        before = total(ctx.meter.counts())
        evaluator.tune(budget)
        if str(budget) not in self._flops:
            self._write(str(budget), evaluator, before)
        return evaluator

    def _write(self, part: str, evaluator: Evaluator, before: int) -> None:
        self._flops[part] = total(evaluator.ctx.meter.counts()) - before
        self._path.parent.mkdir(exist_ok=True)
        record = {"key": self.key, "flops": self._flops}
        checkpoint.write(self._path, {FIT: evaluator.tree}, record)
