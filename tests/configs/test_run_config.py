"""What a config becomes: the budget's values where none was given, and invalid values are
refused.
"""

import functools
import json
import re
import warnings

import pytest

from nevis_stream import learners
from nevis_stream.configs import run_config
from nevis_stream.errors import BadInput, RunWarning
from nevis_stream.learners.config import PRESETS
from nevis_stream.learners.table import TABLE
from nevis_stream.progress import Silent
from nevis_stream.runner import run
from tests import toy

FAMILY = [name for name, row in TABLE.items() if row.class_name == TABLE["indep"].class_name]


def config(learner="indep", **values):
    created = run_config.make_default(learner)
    created.update_from_flattened_dict(
        {name.replace("__", "."): value for name, value in values.items()}
    )
    return created


def built(*args, **values):
    return run_config.resolve(config(*args, **values)).build()


@pytest.mark.parametrize(
    ("name", "budget"),
    [
        (name, budget)
        for name in TABLE
        for budget in getattr(learners.find_config_class(name), "PRESETS", PRESETS)
    ],
)
def test_every_learner_resolves_at_every_budget(name, budget):
    created = run_config.make_default(name)
    created.budget = budget
    resolved = run_config.resolve(created)
    assert resolved.label == name
    if not name.startswith("pt_"):  # these need a file of weights
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RunWarning)  # of a Bayesian search with few trials
            resolved.build()
    assert run_config.resolve(resolved).to_dict() == resolved.to_dict()


@pytest.mark.parametrize("method", ["random", "grid", "bayesian"])
@pytest.mark.parametrize("learner", FAMILY)
def test_every_learner_searches_at_cheap_in_every_way(learner, method):
    values = {"budget": "cheap", "search__method": method}
    if (learner, method) == ("bhpo", "grid"):  # seven hyper-parameters have too many combinations
        with pytest.raises(BadInput, match="the large space has too many combinations"):
            run_config.resolve(config(learner, **values))
        values["search__space"] = "small"
    search = run_config.resolve(config(learner, **values)).own.search
    grid = (1e-4, 1e-3, 1e-2, 1e-1), (0.15,)
    assert (search.learning_rate, search.label_smoothing) == (
        grid if method == "grid" else ((1e-4, 1e-1), (0.15, 0.15))
    )
    trials = 8 if (learner, method) == ("mt", "grid") else 4  # two auxiliary weights
    assert (search.method, search.trials, search.batch) == (method, trials, (16, 32, 64, 128))


def test_a_key_that_does_not_exist_is_refused():
    created = config()
    created.train.step = 100
    with pytest.raises(BadInput, match="'train.step'.*'train.steps'"):
        run_config.resolve(created)


def test_no_budget_changes_a_value_that_was_given():
    values = {"search__method": "random", "search__learning_rate": (0.01, 0.02)}
    assert run_config.resolve(config(budget="cheap", **values)).own.search.learning_rate == (
        0.01,
        0.02,
    )
    values["search__learning_rate"] = (0.01, 0.02, 0.03)
    with pytest.raises(
        BadInput, match=r"learning_rate is \(0.01, 0.02, 0.03\); random search needs \(low, high\)"
    ):
        run_config.resolve(config(budget="cheap", **values))


@pytest.mark.parametrize("batch", [(-3,), ("a",), (0,), (10**6,), (16.0,), (True,), ()])
def test_a_batch_that_makes_no_sense_is_refused(batch):
    with pytest.raises(
        BadInput,
        match=r"config\.search\.batch is " + re.escape(str(batch)),
    ):
        run_config.resolve(config(search__space="large", search__batch=batch))


def test_a_grid_has_its_own_number_of_trials():
    for values in ({"budget": "cheap"}, {"search__method": "grid"}):
        with pytest.raises(
            BadInput,
            match="config.search.trials is 16; a grid search .* or use search.method random",
        ):
            run_config.resolve(config(search__trials=16, **values))
    assert built(budget="cheap", search__trials=16, search__method="random").search.trials == 16
    assert built("mt", budget="cheap").search.trials == 8


def test_an_ensemble_has_no_more_members_than_there_are_trials():
    assert built("mt", budget="cheap", ensemble=8).ensemble == 8
    with pytest.raises(
        BadInput,
        match="config.ensemble is 9; .* the combinations of the grid, 8",
    ):
        built("mt", budget="cheap", ensemble=9)
    with pytest.raises(BadInput, match="config.ensemble is 2; .* the combinations of the grid, 1"):
        built(budget="cheap", ensemble=2, search__learning_rate=(0.1,))
    with pytest.raises(BadInput, match="config.ensemble is 3; .* search.trials, 2"):
        built(ensemble=3)
    with pytest.raises(BadInput, match="config.ensemble is 0"):
        built(ensemble=0)
    with pytest.raises(BadInput, match="config.search.trials is 0"):
        built(search__trials=0)


def test_a_bayesian_search_that_is_a_random_one_says_so():
    with pytest.warns(
        RunWarning,
        match="search.method bayesian draws its first 3 trials at random, so with search.trials 3",
    ):
        built(search__method="bayesian", search__trials=3)
    # warnings are errors here
    assert built(search__method="bayesian", search__trials=4).search.trials == 4


@pytest.mark.parametrize("steps", [0, 10, 30])
def test_pruning_needs_a_look_before_the_end(steps):
    with pytest.raises(
        BadInput,
        match=f"train.steps {steps} and train.validate_every 30 that happens",
    ):
        built(search__pruning="halving", train__steps=steps)
    learner = built(search__pruning="halving", train__steps=31)
    assert learner.halving.list_rung_steps(31, 30) == [30, 31]


def test_of_one_trial_none_is_pruned():
    with pytest.raises(
        BadInput, match="with 1 trial per task there is nothing to prune; set more search.trials"
    ):
        built(search__pruning="halving", search__trials=1)


def test_a_grid_records_the_trials_that_it_runs():
    """Of the paper's grid with auxiliary weights there are eight; four were recorded."""
    resolved = run_config.resolve(config("mt", budget="cheap"))
    assert resolved.own.search.trials == resolved.build().search.trials == 8
    assert run_config.resolve(resolved).own.search.trials == 8


@pytest.mark.parametrize(
    ("learner", "values", "label"),
    [
        ("indep", {}, "indep"),
        ("indep", {"train__steps": 7, "search__trials": 3}, "indep"),
        ("indep", {"initialisation": "random"}, "indep"),
        ("indep", {"initialisation": "previous"}, "indep, initialisation=previous"),
        ("mt", {"auxiliary__which": "all"}, "mt, auxiliary.which=all"),
        ("ft_prev", {"ensemble": 2, "label": "mine"}, "mine"),
        ("ft_prev", {"search__method": "bayesian"}, "ft_prev, search.method=bayesian"),
        ("indep", {"search__method": "grid", "budget": "cheap"}, "indep"),
        ("indep", {"train__frozen": True}, "indep, train.frozen=True"),
    ],
)
def test_the_label_says_what_is_run(learner, values, label):
    resolved = run_config.resolve(config(learner, **values))
    assert resolved.label == label
    assert run_config.resolve(resolved).label == label


class Stop(Exception):
    """A run is interrupted."""


class StopAt(Silent):
    """Interrupts a run at its fifth event."""

    def event(self, index, events, description):
        if index == 4:
            raise Stop


@pytest.fixture(scope="module")
def former(tmp_path_factory):
    """Whole runs, by learner, with what `tiny` stood for in earlier versions: config.json has
    margin 4, and the label is the learner's name.
    """

    @functools.cache
    def make(learner):
        folder = tmp_path_factory.mktemp(learner)
        run_short(learner, folder, label=learner, select__margin=4.0)
        return folder

    return make


def run_short(learner, folder, progress=None, **values):
    values = {"train__steps": 4, "search__trials": 1, "network__resolution": 8} | values
    resolved = run_config.resolve(config(learner, **values))
    return run_config.run_config_once(resolved, toy.stream(), folder, progress=progress)


@pytest.mark.parametrize("learner", ["ft_dynamic", "indep"])
def test_a_run_that_was_begun_with_another_rule_goes_on_with_it(learner, former, tmp_path):
    whole = former(learner)
    with pytest.raises(Stop):
        run_short(learner, tmp_path, StopAt(), label=learner, select__margin=4.0)
    with pytest.raises(BadInput, match="select.margin: there 4.0, now 0.0"):
        run_short(learner, tmp_path, select__margin=0.0)
    run_short(learner, tmp_path)
    for name in ("ledger.jsonl", "config.json"):
        assert (tmp_path / name).read_bytes() == (whole / name).read_bytes()


def test_a_run_by_name_that_was_begun_with_another_rule_goes_on_with_it(former, tmp_path):
    with pytest.raises(Stop):
        run_short("ft_dynamic", tmp_path, StopAt(), label="ft_dynamic", select__margin=4.0)
    values = {"train.steps": 4, "search.trials": 1, "network.resolution": 8}
    begun = learners.flatten(json.loads((tmp_path / "config.json").read_text()))
    ledger = run("ft_dynamic", toy.stream(), tmp_path, values=values)
    assert ledger.complete and begun["select.margin"] == 4.0
    assert ledger.path.read_bytes() == (former("ft_dynamic") / "ledger.jsonl").read_bytes()


@pytest.mark.parametrize("budget", PRESETS)
@pytest.mark.parametrize("learner", ["ft_dynamic", "ft_static", "mt"])
def test_names_of_the_paper_have_its_rule_and_another_rule_has_a_name(learner, budget):
    resolved = run_config.resolve(config(learner, budget=budget))
    assert resolved.build().initialisation.margin == 0 and resolved.label == learner
    other = run_config.resolve(config(learner, budget=budget, select__margin=2.0))
    assert other.label == f"{learner}, select.margin=2.0"
