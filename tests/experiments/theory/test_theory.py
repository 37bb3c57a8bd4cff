"""The theory's tables, claims and page."""

import numpy as np
import pytest

from nevis_stream.errors import BadInput
from nevis_stream.experiments.theory import claims, results
from nevis_stream.experiments.theory.designs import Design, RandomErrors, run_design
from nevis_stream.experiments.theory.populations import Population
from nevis_stream.experiments.theory.results import fit_exponent
from nevis_stream.launch import console
from tests import forked


@pytest.fixture(scope="module")
def tables():
    return claims.Tables.compute(900)


def test_every_claim_holds_but_one_that_is_open_and_one_that_does_not(tables):
    verdicts = {each.source: each.verdict for each in claims.check(tables)}
    others = {source: verdict for source, verdict in verdicts.items() if verdict != "yes"}
    assert others == {"Theorem 4.1": "open", "Appendix A.1": "NO"}
    assert len(claims.check(tables)) == 13


def test_adversaries_make_the_check_of_the_bound_worth_something(tables):
    equal = tables.instances[tables.instances["distance"] < 1e-9]
    constants = (equal["risk"] / equal["eps"] ** 2).groupby(equal["minimiser"]).max()
    assert constants["greedy"] > 4 and constants["worst of three"] > 4
    assert constants.max() <= 6
    assert set(tables.instances["shift"]) == {"none", "reweighted", "missing"}
    assert tables.instances["distance"].max() > 0.3


def test_a_claim_fails_where_the_measurements_contradict_it(tables):
    worse = tables.instances.assign(risk=tables.instances["bound"] * 1.01)
    assert not claims._of_bound(worse).holds
    stalled = tables.stalled.assign(constant=0.1)
    assert not claims._of_stalled(stalled).holds
    flat = tables.worst_cases.assign(risk=tables.worst_cases["eps"] ** 1.5)
    assert [each.holds for each in claims._of_exponents(flat)] == [False] * 4
    assert not claims._of_depth(flat).holds
    assert not claims._of_perfect(tables.perfect.assign(largest_vote_risk=1e-6)).holds


def test_a_minimiser_that_breaks_its_promise_is_noticed():
    population = Population.uniform(1000)
    outcome = run_design(population, RandomErrors(0.2, np.random.default_rng(0)), Design.path(3))
    with pytest.raises(ArithmeticError):
        results._check_promise(outcome, 0.1)


def test_an_exponent_with_its_interval():
    generator = np.random.default_rng(0)
    eps = np.geomspace(0.01, 0.2, 12)
    fit = fit_exponent(eps, 3 * eps**2.5 * np.exp(0.1 * generator.normal(size=12)))
    assert fit.low < 2.5 < fit.high and fit.high - fit.low < 0.3
    assert fit.constant == pytest.approx(3, rel=0.4)
    with pytest.raises(BadInput, match="3 values of eps or more"):
        fit_exponent(np.array([0.1, 0.1, 0.2]), np.ones(3))
    with pytest.raises(BadInput, match="positive risks"):
        fit_exponent(np.array([0.1, 0.3, 0.2]), np.zeros(3))


@pytest.mark.slow
def test_the_command_writes_a_page_that_needs_nothing_else(tmp_path):
    done = forked.run("launch.dynamic_benchmark", "theory", f"--out={tmp_path}", "--instances=90")
    assert done.returncode == 0, done.stderr
    assert "Theorem 3.5" in done.stdout
    page = (tmp_path / "report.html").read_text()
    assert "http" not in page.replace("http-equiv", "").replace("http://www.w3.org", "")
    assert page.count("<figure") == 6 and "constant measured" in page
    assert len(list(tmp_path.glob("*.csv"))) == 7
    assert "dynamic-benchmark" in console.COMMANDS


def test_wrong_words_get_a_message():
    done = forked.run("launch.dynamic_benchmark", "theroy")
    assert done.returncode == 2 and "'theory'" in done.stderr
    done = forked.run("launch.dynamic_benchmark", "theory", "--instances=0")
    assert done.returncode == 2 and "Traceback" not in done.stderr
