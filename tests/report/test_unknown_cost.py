"""A cost that nobody counted is unknown wherever results are shown; warnings are shown once."""

import warnings

import ml_collections
from rich.console import Console

from nevis_stream.configs import plan
from nevis_stream.configs.grid import Cell
from nevis_stream.errors import RunWarning
from nevis_stream.launch import entry, run_screen
from nevis_stream.launch.run_state import state_of
from nevis_stream.progress import Silent
from nevis_stream.report.build import write_report
from nevis_stream.runner import run
from tests import toy
from tests.test_the_same_run import Frequencies


def test_an_unknown_cost_is_said_in_reports_and_tables(tmp_path, undrawn, capsys):
    for name, learner in (("a", Frequencies(None, None)), ("b", Frequencies())):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            config = {"learner": name}
            run(learner, toy.stream(), tmp_path / name, config=config, progress=Silent())
    write_report([tmp_path / "a", tmp_path / "b"], tmp_path / "report")
    page = (tmp_path / "report" / "report.html").read_text()
    assert page.count(">cost unknown<") == 2  # in the table of methods, with the reason beside it
    assert page.count("a: cost unknown: nothing was charged to train and predict (") == 3
    config = ml_collections.ConfigDict({"learner": "a", "stream": "toy"})
    for name, times in (("a", 3), ("b", 0)):  # two columns and the reason
        plan.print_results([Cell(name, {}, {}, config)], {name: [tmp_path / name]})
        assert capsys.readouterr().out.count("unknown") == times
    console, states = Console(width=200), [state_of(tmp_path / name) for name in "ab"]
    for shown, times in ((states[:1], 2), (states, 1)):  # `watch`: training and all phases; a line
        with console.capture() as captured:
            console.print(run_screen.render(shown, console))
        assert captured.get().count(" unknown") == times


def test_a_command_prints_a_warning_once(capsys, monkeypatch):
    monkeypatch.setattr(entry, "_warnings_shown", set())
    for message in ("the same", "the same", "another"):
        entry._show_warning(RunWarning(message), RunWarning, "file", 1)
    assert capsys.readouterr().err == "warning: the same\nwarning: another\n"
