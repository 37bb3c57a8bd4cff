"""The grid of a sweep."""

import pytest

from nevis_stream.configs import grid, plan, run_config


def config(**values):
    created = run_config.make_default("indep")
    created.update_from_flattened_dict(
        {name.replace("__", "."): value for name, value in values.items()}
    )
    return created


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("search.trials=3", 3),
        ("train.weight_decay=1", 1.0),
        ("augmentation.flip=false", False),
        ("search.learning_rate=(0.1,0.2)", (0.1, 0.2)),
    ],
)
def test_values_have_the_type_of_their_key(text, value):
    (cell,) = grid.list_cells(config(), [grid.parse_axis(text)])
    (result,) = cell.values.values()
    assert (result, type(result)) == (value, type(value))


def test_every_combination_with_names_that_say_what_it_is():
    cells = grid.list_cells(
        config(),
        [
            ("search.trials", "2,4"),
            ("network.width", "8,16"),
            ("search.learning_rate", "(0.1,0.2)"),
        ],
    )
    assert [cell.name for cell in cells] == [
        f"trials-{trials}-network.width-{width}-search.learning_rate-0.1_0.2"
        for trials in (2, 4)
        for width in (8, 16)
    ]
    assert [(cell.config.own.search.trials, cell.config.own.network.width) for cell in cells] == [
        (2, 8),
        (2, 16),
        (4, 8),
        (4, 16),
    ]
    names = [
        cell.name
        for cell in grid.list_cells(config(), [("stream", "random_40@1,my/own.csv,pico+partial")])
    ]
    assert names == ["stream-random_40@1", "stream-my_own.csv", "stream-pico+partial"]
    alike = grid.list_cells(config(), [("label", "a/b,a_b,A_b")])
    assert len({cell.name.lower() for cell in alike}) == 3 and alike[0].name == "label-a_b"


@pytest.mark.parametrize(("steps", "look"), [(240, 60), (10, 3), (2, 1), (0, 1), (50_000, 12_500)])
def test_four_looks_unless_told_otherwise(steps, look):
    (cell,) = grid.list_cells(config(), [("train.steps", str(steps))])
    assert cell.config.own.train.validate_every == cell.settings["train.validate_every"] == look
    assert -(-steps // look) <= 4
    (cell,) = grid.list_cells(config(train__validate_every=7), [("train.steps", str(steps))])
    assert cell.config.own.train.validate_every == 7 and "train.validate_every" not in cell.settings
    (cell,) = grid.list_cells(config(), [("search.trials", "2")])
    assert cell.config.own.train.validate_every == 30  # the budget's


def test_the_given_config_stays_as_it_was():
    shared = config()
    grid.list_cells(shared, [("search.trials", "2,4"), ("train.steps", "8")])
    assert shared == config()


def test_two_names_of_one_run_are_refused():
    with pytest.raises(
        ValueError, match="budget=tiny and budget=tiny would have the same directory"
    ):
        grid.list_cells(config(), [("budget", "tiny,tiny")])
    with pytest.raises(ValueError, match="unknown config key"):
        grid.list_cells(config(), [("trials", "2")])


def test_a_combination_whose_runs_cannot_be_used_has_no_point_but_a_reason(tmp_path, capsys):
    cells = grid.list_cells(config(), [("search.trials", "2")])
    plan.print_results(cells, {"trials-2": [tmp_path / "none"]})
    printed = "".join(capsys.readouterr().out.split())
    assert "│2│120│0│-│-│-│-│-│" in printed and "nosuchdirectory" in printed
