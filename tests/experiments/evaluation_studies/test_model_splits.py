"""Which models are known and which samples they lack."""

import numpy as np
import pytest

from nevis_stream.errors import BadInput
from nevis_stream.experiments.evaluation_studies.model_splits import (
    Models,
    ModelSplit,
    hide_samples,
)

GROUPS = np.repeat(["x", "y", "z"], 4)
DATES = np.array([f"2024-{month:02d}" for month in range(12, 0, -1)])
MIXED = np.array(["unknown", *map(str, range(11))])
MODELS = Models(
    12, GROUPS, {"date": DATES, "mixed": MIXED, "size": np.array(["10", "9", *[""] * 10])}
)


def divided(text, known=0.5, seed=0, models=MODELS):
    return [rows.tolist() for rows in ModelSplit.parse(text).divide(models, known, seed)]


def test_random_models_are_drawn_one_by_one_and_groups_as_a_whole():
    known, new = divided("random")
    assert sorted(known + new) == list(range(12)) and len(known) == 6
    assert set(GROUPS[known]) & set(GROUPS[new])
    for text in ("", "group"):
        known, new = divided(text, 0.67)
        assert len(known) == 8 and not set(GROUPS[known]) & set(GROUPS[new])


def test_with_a_bias_all_known_models_are_of_one_kind_and_all_new_ones_of_others():
    known, new = divided("biased:y")
    assert len(known) == 2 and set(known) < {4, 5, 6, 7} and new == [0, 1, 2, 3, 8, 9, 10, 11]
    assert {tuple(divided("biased:y", seed=seed)[0]) for seed in range(9)} != {tuple(known)}
    assert divided("biased:date=2024-01", 1.0) == [[11], list(range(11))]


def test_a_kind_may_be_a_pattern_of_groups():
    assert divided("biased:[xy]", 1.0) == [list(range(8)), [8, 9, 10, 11]]
    models = Models(12, GROUPS)
    whole = ModelSplit.parse("biased:[xy]").choose_groups(models)
    assert whole is not None and whole.tolist() == GROUPS.tolist()
    # of one group, each model is left out by itself
    assert ModelSplit.parse("biased:y").choose_groups(models) is None


def test_by_a_column_the_first_models_are_known():
    assert divided("by:date", 0.25) == [[9, 10, 11], list(range(9))]
    # numbers are compared as numbers, and models without a value take no part
    assert divided("by:size") == [[1], [0]]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("by:colour", "'colour'.*date, group"),
        ("biased:w", "'w'.*x, y, z"),
        ("by", "'by'.*by:COLUMN"),
        ("half", "'half'.*by:COLUMN"),
        ("biased:date=2024-01", "0 known models of 1"),
        ("by:mixed", "by:mixed: 'unknown' is not a number, but other values are"),
    ],
)
def test_what_cannot_be_divided(text, said):
    with pytest.raises(BadInput, match=said):
        divided(text, 0.4)
    for fraction in (float("nan"), 0.0, 1.0):
        with pytest.raises(BadInput, match="known fraction"):
            divided("by:date", fraction)
    with pytest.raises(BadInput, match="there are no groups of models"):
        divided("group", models=Models(12))
    with pytest.raises(BadInput, match="--model_facts=FILE"):
        divided("by:date", models=Models(12))


def test_hidden_data_sets_are_named_or_drawn():
    dataset = np.repeat(["a", "b", "c"], [3, 2, 1])
    assert hide_samples(dataset, "a,c", 0).tolist() == [True] * 3 + [False] * 2 + [True]
    drawn = [hide_samples(dataset, "1", seed) for seed in range(9)]
    assert all(len(set(dataset[hidden])) == 1 for hidden in drawn)
    assert len({hidden.tobytes() for hidden in drawn}) > 1
    for hide, said in (("d", "'d'.*a, b, c"), ("3", "between 1 and 2"), ("a,b,c", "left")):
        with pytest.raises(BadInput, match=said):
            hide_samples(dataset, hide, 0)
    with pytest.raises(BadInput, match="belong to no data sets"):
        hide_samples(None, "1", 0)


def test_the_strongest_or_weakest_quarter_is_new():
    groups = np.array([*"aabbccddeeff", "g", "h"])
    means = np.array([0.1, 0.9, 0.2, 0.2, 0.3, 0.3, 0.4, 0.4, 0.5, 0.5, 0.6, 0.6, 0.95, 0.05])
    models = Models(14, groups, means=means)
    known, new = ModelSplit.parse("stronger").divide(models, 0.5, 0)
    assert set(groups[new]) == {"a", "g"}  # by their best model
    assert len(set(groups[known])) == 3 and not set(groups[known]) & set(groups[new])
    known, new = ModelSplit.parse("weaker").divide(models, 1.0, 0)
    assert set(groups[new]) == {"h", "b"} and len(known) + len(new) == 14
    with pytest.raises(BadInput, match="no common mean"):
        ModelSplit.parse("stronger").divide(Models(14, groups), 0.5, 0)
