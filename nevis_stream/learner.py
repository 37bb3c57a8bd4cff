"""The contract between the benchmark and a learner: three methods and their context; and learners
by name.

A *learner* contains only its configuration. What it remembers is the *state* that it returns; the
model that answers for a task is a *predictor*. Both are trees of arrays and JSON scalars, which the
runner saves. The context counts FLOPs: a function compiled with `ctx.jit` is charged at every call,
anything else is charged with `ctx.charge`.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from nevis_stream import extensions
from nevis_stream.cost.compute import Compute
from nevis_stream.cost.meter import Meter
from nevis_stream.datasets.images import Images
from nevis_stream.errors import BadInput, LeakError, LearnerFault, unknown
from nevis_stream.executor import Executor, Inline, Result, Trial
from nevis_stream.progress import Progress, Silent
from nevis_stream.run_directory.scalars import TRIAL, Scalars
from nevis_stream.storage.checkpoint import EventWorkspace, Tree, flatten_leaves, rebuild, to_host
from nevis_stream.streams.task import TaskView
from nevis_stream.user_calls import explain_refused_write, find_change, read_attributes

State = Tree


@dataclass(frozen=True)
class Predictor:
    """A trained model for one task.

    Attributes:
      tree: what `predict` needs: arrays and JSON scalars.
      trial: the trial of the search that it comes from.
      step: the number of training steps after which it was taken.
      info: JSON facts for the ledger; docs/run-directory.md lists the usual ones.
    """

    tree: Tree
    trial: int = 0
    step: int = 0
    info: Mapping[str, Any] = field(default_factory=dict)


class Learner(Protocol):
    """A method for learning a stream of tasks.

    A learner's attributes are its configuration and never change: everything learned goes through
    `State` and `Predictor`, so that a killed run continues exactly where it was.
    """

    def init(self, ctx: "Context") -> State:
        """Returns the state before the first task. Pre-training is done here and is charged to
        `pretrain`.
        """
        ...

    def train(
        self, task: TaskView, state: State, ctx: "Context"
    ) -> tuple[State, Sequence[Predictor]]:
        """Learns a task; returns the new state and the predictors, the chosen one first."""
        ...

    def predict(self, predictor: Tree, images: Images, ctx: "Context") -> np.ndarray:
        """Returns float32[n, classes]: probabilities of classes, or of each label."""
        ...

    # An optional method, for the protocol all_seen:
    # def predictor_for(self, task: TaskView, state: State, ctx: "Context") -> Predictor:
    #     Returns the predictor of an earlier task, of which only facts are given, made of the state
    #     after the last one.


_BELONGS = {
    "init": "Return it from init as the state, {{{name!r}: …}}",
    "train": "Put it into the state: return {{{name!r}: …}} and the predictors from train, and read"
    " state[{name!r}] in the next call",
}
_OF_PREDICTOR = "What predict needs of a task is put into the predictor's tree by train"


def call(about: str, learner: Learner, method: str, *arguments: Any) -> Any:
    """Calls a method of a learner, which must neither change its attributes nor write into images.

    Args:
      about: names the learner, and the task or the file, for messages.
      learner: the learner.
      method: the name of the method.
      arguments: of the method.

    Raises:
      LearnerFault: it did one of the two.
    """
    before = read_attributes(learner)
    try:
        returned = getattr(learner, method)(*arguments)
    except ValueError as error:
        if reason := explain_refused_write(error):
            raise LearnerFault(f"{about}: {method}: {reason}") from error
        raise
    if name := find_change(before, read_attributes(learner)):
        raise LearnerFault(
            f"{about}: {method} changed the attribute {name!r}. Attributes are the learner's"
            " configuration: what is kept there is lost when the run is killed, and another run of"
            f" the same object finds it. {_BELONGS.get(method, _OF_PREDICTOR).format(name=name)}"
            " (docs/adding-a-learner.md)."
        )
    return returned


class Context(Compute):
    """What a learner may use while it works.

    Attributes:
      trial: the current trial inside `map`, else None.
      seed: an integer in [0, 2**63) that belongs to this run, this task and this trial.
      meter: the FLOPs charged so far in this event (in this trial, inside `map`).
      small_batches: whether `predict` is called many times with few samples, so that filling up
        batches would waste FLOPs.
    """

    def __init__(
        self,
        *,
        path: tuple[str, ...],
        phase: str,
        trial: int | None = None,
        past: Mapping[str, Callable[[], Tree]] | None = None,
        past_views: Mapping[str, Callable[[], TaskView]] | None = None,
        workspace: EventWorkspace | None = None,
        progress: Progress | None = None,
        executor: Executor | None = None,
        devices: int = 1,
        scalars: Scalars | None = None,
        small_batches: bool = False,
    ):
        super().__init__(path, phase, trial)
        self._past = past or {}
        self._past_views = past_views or {}
        self._workspace = workspace
        self._progress = progress or Silent()
        self._executor = executor or Inline()
        self._devices = devices
        self._scalars = scalars
        self._trials = 0
        self._like: Any = None
        self.small_batches = small_batches

    @property
    def sparing(self) -> bool:
        """The former name of `small_batches`, for learners that were written with it."""
        return self.small_batches

    def map(self, function: Callable[["Context", Any], Tree], items: Sequence[Any]) -> list[Tree]:
        """Runs `function(ctx, item)` as one trial for each item and returns the results in order.

        Each trial has a context with its own trial number, seed and meter; its result is a tree of
        arrays and JSON scalars. The result and cost of a trial that was finished before a kill are
        read, and it is not run again. In a second map of the same task (a sequential search) the
        trial numbers continue. Trials may run in parallel or on another machine, so load what they
        need of the past before, and pass it with the function or the items.

        Raises:
          LearnerFault: called inside a trial.
        """
        trials = self._new_trials(function, items)
        return self._charge(self._executor.run(trials, self._progress) if trials else [])

    def map_together(
        self,
        function: Callable[[Sequence["Context"], Sequence[Any]], Sequence[Tree]],
        items: Sequence[Any],
    ) -> list[Tree]:
        """As `map`, for trials that are computed together: `function(contexts, items)` returns all
        results and charges to each context what its trial costs. Unless all were finished before a
        kill, all are run again.

        Raises:
          LearnerFault: called inside a trial.
        """
        trials = self._new_trials(function, items)
        results = [result for trial in trials if (result := trial.finished()) is not None]
        if len(results) < len(trials):
            contexts = [trial.begin(progress=self._progress) for trial in trials]
            trees = function(contexts, items)
            results = [
                trial.finish((to_host(tree, copy=True), ctx.meter.counts()))
                for trial, ctx, tree in zip(trials, contexts, trees, strict=True)
            ]
        return self._charge(results)

    def _new_trials(self, function: Callable, items: Sequence[Any]) -> list[Trial]:
        if self.trial is not None:
            raise LearnerFault(
                f"ctx.map was called inside trial {self.trial}; trials cannot have trials of their"
                " own."
            )
        trials = []
        for number, item in enumerate(items, start=self._trials):
            begin = functools.partial(
                Context,
                path=(*self._path, f"trial {number}"),
                phase=self._phase,
                trial=number,
                workspace=self._workspace,
                devices=self._devices,
                scalars=self._scalars.part(f"trial-{number:03d}") if self._scalars else None,
            )
            trials.append(Trial(function, item, number, begin, self._workspace))
        self._trials += len(items)
        return trials

    def _charge(self, results: Sequence[Result]) -> list[Tree]:
        """Adds what trials cost to the meter and returns their trees."""
        for _, counts in results:
            self.meter.add(counts)
        return [tree for tree, _ in results]

    def spread(self, batch: Tree) -> Tree:
        """Returns a tree of arrays [b, …] divided over the devices of this run.

        With one device the tree is returned as it is; an array whose b is not divisible by the
        number of devices is copied to each. Programs called with such a batch compute the same as
        on one device (gradients, batch statistics); other arguments are copied to every device.
        """
        if self._devices == 1:
            return batch
        import jax

        def place(array):
            shared = array.shape[0] % self._devices == 0
            return jax.device_put(array, self._sharding("batch" if shared else None))

        return jax.tree.map(place, batch)

    def replicate(self, tree: Tree) -> Tree:
        """Returns a tree of arrays copied to every device of this run."""
        if self._devices == 1:
            return tree
        import jax

        return jax.device_put(tree, self._sharding(None))

    def _sharding(self, axis: str | None) -> Any:
        import jax

        if self._devices > len(jax.devices()):
            raise BadInput(
                f"each batch is to be shared by {self._devices} devices, but this machine has"
                f" {len(jax.devices())}."
            )
        mesh = jax.sharding.Mesh(np.asarray(jax.devices()[: self._devices]), ("batch",))
        return jax.sharding.NamedSharding(
            mesh, jax.sharding.PartitionSpec(*([axis] if axis else []))
        )

    def checkpoint(self, step: int, tree: Callable[[], Tree]) -> None:
        """Offers a position inside a trial; `tree()` is called and saved only if a save is due.

        Raises:
          BadInput: the tree contains what would not come back as it is, such as a namedtuple of
            optax, and `restore` was not called with `like`.
          LearnerFault: the tree has another structure than `like`.
        """
        if self._workspace and self._workspace.is_due(self.trial):
            saved = tree() if self._like is None else flatten_leaves(tree(), self._like)
            self._workspace.save(self.trial, step, saved, self.meter.counts())

    def restore(self, *, like: Any = None) -> tuple[int, Any] | None:
        """Returns the step and tree that `checkpoint` saved in this trial before a kill, or None.

        The meter is set back to what had been charged then, so call this before anything is
        charged.

        Args:
          like: a tree of the structure, shapes and dtypes of what `checkpoint` will save, for
            example the first state of an optax optimiser. With it the tree has this structure, and
            its arrays are numpy's; without it, that of a state: dicts, lists, arrays and JSON
            scalars.

        Raises:
          LearnerFault: what was saved does not fit `like`.
        """
        self._like = like
        saved = self._workspace.restore(self.trial) if self._workspace else None
        if saved is None:
            return None
        step, tree, counts = saved
        tree = tree if like is None else rebuild(tree, like)
        self.meter = Meter()
        self.meter.add(counts)
        return step, tree

    def log(self, step: int, **values: float | None) -> None:
        """Shows numbers of the current trial after a step (TensorBoard, launch.watch).

        Values that are None are left out, and nothing here is part of the result. After `restore`,
        log the points before the position again: those of a killed attempt are deleted, so that no
        point appears twice. `train_loss`, `dev_error` and `learning_rate` are the usual names.
        """
        if self._scalars:
            self._scalars.write(step, {f"{TRIAL}/{name}": value for name, value in values.items()})

    @property
    def past_tasks(self) -> tuple[str, ...]:
        """Ids of the earlier tasks, in order; empty in a trial."""
        return tuple(self._past)

    def predictor(self, task_id: str) -> Tree:
        """Returns the tree of the predictor chosen for an earlier task, read from its checkpoint.

        Raises:
          LeakError: the task has not been met.
        """
        if task_id not in self._past:
            raise LeakError(
                f"there is no predictor for it: {unknown('past task', task_id, self._past)}"
            )
        return self._past[task_id]()

    def task(self, task_id: str) -> TaskView:
        """Returns an earlier task with its train and dev splits (NEVIS'22, section 3).

        Raises:
          LeakError: the task has not been met.
        """
        if task_id not in self._past_views:
            raise LeakError(
                f"its data are not available: {unknown('past task', task_id, self._past_views)}"
            )
        return self._past_views[task_id]()

    def progress(self, step: int, steps: int) -> None:
        """Reports that `step` of `steps` steps of the current trial are done."""
        self._progress.step(step, steps)


@dataclass(frozen=True)
class ConfiguredLearner:
    """A learner that was built from its name.

    Attributes:
      learner: an instance.
      config: JSON values that describe it, as a run records them: its `learner` is the name.
      as_begun: takes the values that a run recorded, and returns the learner that goes on with it;
        None: this one does.
    """

    learner: Learner
    config: Mapping[str, Any]
    as_begun: "Callable[[Mapping[str, Any]], ConfiguredLearner] | None" = None


Configure = Callable[[str, str | None, Mapping[str, Any]], ConfiguredLearner]
"""Given a learner's name, a preset (None: the usual one) and values by dotted name, which go before
the preset's, returns the learner."""


def learner_names() -> list[str]:
    """Returns the names that `run` and `make_learner` take."""
    return extensions.list_offered(extensions.LEARNERS)


def make_learner(
    name: str, preset: str | None = None, values: Mapping[str, Any] | None = None
) -> Learner:
    """Builds a learner.

    Args:
      name: one of `learner_names()`.
      preset: name of the values that a learner has for a budget, "tiny" or "small" for example:
        what --config.budget sets on the command line. None: "tiny".
      values: single values by dotted name, for example {"train.steps": 400}, as --config.KEY=VALUE
        sets them.

    Raises:
      BadInput: no such learner, preset, or value; the message lists the valid ones.
    """
    return configure(name, preset, values).learner


def configure(
    name: str, preset: str | None = None, values: Mapping[str, Any] | None = None
) -> ConfiguredLearner:
    """Returns a learner with its config; arguments as of `make_learner`."""
    function: Configure = extensions.load(extensions.LEARNERS, name)
    return function(name, preset, dict(values or {}))
