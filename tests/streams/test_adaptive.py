"""A stream whose next task depends on the results: run, killed, watched, refused where its rule is
invalid.
"""

import random
from dataclasses import replace

import pytest

from nevis_stream.analysis.runs import read_runs
from nevis_stream.errors import BadInput, LeakError
from nevis_stream.launch.run_state import DONE, state_of
from nevis_stream.run_directory.config import read_config
from nevis_stream.run_directory.ledger import Ledger
from nevis_stream.run_directory.records import PredictRecord, TrainRecord
from nevis_stream.runner import run
from nevis_stream.streams.stream import Stream
from nevis_stream.streams.task import Event
from tests import forked, toy
from tests.streams.result_stream import Adaptive, result_stream
from tests.test_kill import KILLED, command, results
from tests.test_leaks import probing, reachable


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return run(
        toy.ToyLearner(), result_stream(), tmp_path_factory.mktemp("w") / "run", seed=3, keep="all"
    )


def test_the_next_task_depends_on_the_last_error(whole, tmp_path):
    tasks = [record.task_id for record in whole.of_kind(TrainRecord)]
    errors = [record.error for record in whole.of_kind(PredictRecord)]
    assert tasks == ["task_1_hard", "task_2_easy", "task_3_hard"]
    assert errors[0] > 0.75 > errors[1]
    assert [record.train_event for record in whole.of_kind(PredictRecord)] == [0, 2, 4]
    other = run(toy.ToyLearner(), result_stream(Adaptive(limit=0.95)), tmp_path, seed=3, keep="all")
    assert {record.dataset_id for record in other.of_kind(TrainRecord)} == {"hard"}
    assert other.header.stream_digest != whole.header.stream_digest


def test_its_length_is_unknown_until_it_ends(whole):
    assert (whole.header.tasks, whole.header.events) == (None, None)
    assert whole.header.rule == read_config(whole.run_dir).values["rule"] == Adaptive().rule
    runs, left_out = read_runs([whole.run_dir])
    assert len(runs) == 1 and not left_out
    with pytest.raises(BadInput, match="results of a run .easier after an error"):
        result_stream().events("meta_test")


def test_watch_shows_the_tasks_met_so_far(whole, tmp_path):
    assert (state_of(whole.run_dir).done, state_of(whole.run_dir).length) == (3, 3)
    lines = whole.path.read_bytes().splitlines(keepends=True)
    for name in ("config.json", "stream.csv", "timing.jsonl", "lock"):
        (tmp_path / name).write_bytes((whole.run_dir / name).read_bytes())
    (tmp_path / "ledger.jsonl").write_bytes(b"".join(lines[:3]))
    (tmp_path / "checkpoints" / "0002-task_2_easy.progress").mkdir(parents=True)
    state = state_of(tmp_path)
    assert [(task.task_id, task.state) for task in state.tasks] == [("task_1_hard", DONE)]
    assert (state.doing, state.length, state.trouble) == ("train", None, "")


def test_killed_anywhere_it_ends_in_the_same_ledger(tmp_path):
    folder = tmp_path / "adaptive"
    done = forked.run(*command(folder / "whole", "toy@adaptive", "inline"))
    assert done.returncode == 0, done.stderr
    expected, chance, kills = results(folder / "whole"), random.Random(0), 0
    while True:
        done = forked.run(
            *command(folder / "often", "toy@adaptive", "inline", chance.randint(10, 120))
        )
        if done.returncode == 0:
            break
        assert done.returncode == KILLED, done.stderr
        kills += 1
        assert kills < 100
    assert kills >= 5
    assert results(folder / "often") == expected
    assert Ledger(folder / "whole").header.rule == Adaptive().rule


class Repeats(Adaptive):
    """Gives the first task again."""

    def next(self, stream, history):
        event = super().next(stream, history)
        if event and event.kind == "train" and event.task.order == 2:
            return Event(self.task(stream, 1, "hard"))
        return event


class GoesBack(Adaptive):
    """Gives a task with a lower order."""

    def next(self, stream, history):
        event = super().next(stream, history)
        if event and event.kind == "train" and event.task.order == 2:
            return Event(replace(event.task, order=1))
        return event


class PredictsFirst(Adaptive):
    """Predicts a task that was not trained on."""

    def next(self, stream, history):
        return Event(self.task(stream, 1, "hard"), "test")


class PredictsDev(Adaptive):
    """Predicts a split that the protocol does not."""

    def next(self, stream, history):
        event = super().next(stream, history)
        return Event(event.task, "dev_test") if event.kind == "predict" else event


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        (Repeats, "'train on task_1_hard' was already done"),
        (GoesBack, "task 'task_2_easy' has order 1, but 'task_1_hard' with order 1"),
        (PredictsFirst, "task 'task_1_hard' is predicted before it is trained on"),
        (PredictsDev, "protocol 'meta_test' predicts the test split"),
    ],
)
def test_an_invalid_event_is_refused(tmp_path, schedule, message):
    with pytest.raises(
        BadInput, match=f"stream 'adaptive': the next event is not valid: {message}"
    ):
        run(toy.ToyLearner(), result_stream(schedule()), tmp_path)


class Former(Stream):
    """A stream as it was written before schedules."""

    def next(self, records):
        return None


def test_a_stream_with_an_order_of_its_own_is_refused(tmp_path):
    stream = result_stream()
    with pytest.raises(BadInput, match="a method `next`, which a schedule has now"):
        run(toy.ToyLearner(), Former("former", stream.tasks, stream.dataset), tmp_path)


class Forgetful(Adaptive):
    """Decides by something other than the records."""

    first = "hard"

    def next(self, stream, history):
        if not history.events:
            return Event(self.task(stream, 1, self.first))
        return super().next(stream, history)


def test_a_rule_that_depends_on_something_else_is_noticed(tmp_path):
    class Interrupted(Exception):
        pass

    class Stops(toy.ToyLearner):
        def train(self, task, state, ctx):
            if state["met"] == 1:
                raise Interrupted
            return super().train(task, state, ctx)

    with pytest.raises(Interrupted):
        run(Stops(), result_stream(Forgetful()), tmp_path, config={"learner": "toy"})
    changed = Forgetful()
    changed.first = "easy"
    message = (
        "event 0 of the run is 'train on task_1_hard', but stream 'adaptive' now gives 'train on"
        " task_1_easy'"
    )
    with pytest.raises(BadInput, match=message):
        run(toy.ToyLearner(), result_stream(changed), tmp_path, config={"learner": "toy"})


def test_a_learner_cannot_reach_the_pool(tmp_path):
    with pytest.raises(LeakError, match="its data are not available: .*'task_3_hard'"):
        run(
            probing(in_train=lambda task, ctx: ctx.task("task_3_hard")),
            result_stream(),
            tmp_path / "asks",
        )
    words_seen = []

    def in_train(task, ctx):
        things = reachable(task, ctx)
        words = {thing for thing in things if isinstance(thing, str)}
        later = {f"task_{order}_{name}" for order in (2, 3) for name in ("easy", "hard")}
        met = {task.task_id, *ctx.past_tasks}
        assert not words & (later - met)
        words_seen.append(task.task_id)

    run(probing(in_train), result_stream(), tmp_path / "looks")
    assert len(words_seen) == 3
