"""Samples of different prices: unbiased by enumeration, never above the budget, or refused."""

import itertools
import json
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nevis_stream import dynamic_evaluation as de
from nevis_stream.dynamic_evaluation import methods
from nevis_stream.dynamic_evaluation.method import make_context
from nevis_stream.dynamic_evaluation.policies import sequential, staged_strata
from nevis_stream.dynamic_evaluation.predictors.mean import compute_mean_weights
from nevis_stream.dynamic_evaluation.response import ResponsePosterior
from nevis_stream.dynamic_evaluation.session_records import PRICES
from nevis_stream.errors import BadInput
from nevis_stream.estimation import difference
from nevis_stream.estimation.allotment import allot
from nevis_stream.queries.matrix import ArrayMatrix
from nevis_stream.queries.oracle import Query, Responses
from nevis_stream.queries.prices import Prices, parse_budget, parse_prices
from nevis_stream.queries.samples import SampleFacts
from tests.documented_commands import run
from tests.dynamic_evaluation.making import one_order

N = 8
PRICE = np.array([1, 9, 2, 1, 10, 2, 1, 4.0])
TRUTH = np.array([1, 0, 1, 1, 0, 0, 1, 0.5])
STAKES = np.array([1, 2, 1, 3, 1, 1, 2, 1]) / 24


def expected(values):
    """Predictions of all samples from some answers, NaN where there is none: any function."""
    known = ~np.isnan(values)
    mean = (values[known].sum() + 1) / (known.sum() + 2)
    return 1 / (1 + np.exp(-(3 * mean - 1 + np.sin(np.arange(N) * (1 + mean)))))


class FixedPosterior(ResponsePosterior):
    def moments(self, answers):
        values = np.full((len(answers.values), N), np.nan)
        np.put_along_axis(values, answers.samples, answers.values, axis=1)
        p = np.array([expected(row) for row in values])
        return p, p * (1 - p)


def paths(prices, weights, chances_of):
    """Yields probability, stages and answers of every sequence of draws."""

    def follow(probability, stages, values, answers):
        if len(stages) == len(counts):
            yield probability, stages, values
            return
        strata = staged_strata.cut(
            FixedPosterior(N), answers, weights, counts[len(stages)], prices
        )[0]
        members = [np.flatnonzero(strata == h) for h in range(counts[len(stages)])]
        for drawn in itertools.product(*members):
            drawn, later = np.array(drawn), values.copy()
            chances = np.array(
                [chances_of(each)[each == i][0] for each, i in zip(members, drawn, strict=True)]
            )
            later[drawn] = TRUTH[drawn]
            predicted = np.full(N, np.nan)
            for h, i in enumerate(drawn):
                rest = later.copy()
                rest[i] = np.nan
                predicted[strata == h] = expected(rest)[strata == h]
            stage = difference.Stage(strata, drawn, chances, predicted)
            more = answers.then(Responses(Query(drawn[None]), TRUTH[drawn][None]))
            yield from follow(probability * chances.prod(), [*stages, stage], later, more)

    counts = staged_strata.plan_stages(0, prices)
    nothing = Responses(Query.none(1), np.empty((1, 0)))
    yield from follow(1.0, [], np.full(N, np.nan), nothing)


def expectation(prices, weights, chances_of):
    total = 0.0
    for probability, stages, values in paths(prices, weights, chances_of):
        assert prices.each[~np.isnan(values)].sum() <= prices.budget
        total += probability * difference.estimate(stages, values, weights)[0]
    return total


@pytest.mark.parametrize("budget,stages", [(11, 1), (15, 1), (22, 2)])
def test_the_expectation_is_the_mean_at_any_prices(budget, stages):
    prices = Prices("tokens", PRICE, budget, STAKES)
    assert len(staged_strata.plan_stages(0, prices)) == stages
    for weights in (np.full(N, 1 / N), np.repeat([0.2, 0.05], N // 2)):

        def by_price(members, weights=weights):
            worth = weights[members] / np.sqrt(PRICE[members])
            return worth / worth.sum()

        mean = expectation(prices, weights, by_price)
        assert mean == pytest.approx(float(weights @ TRUTH), abs=1e-12)
        # the probabilities that are written beside the draws are these
        strata = staged_strata.cut(
            FixedPosterior(N), Responses(Query.none(1), np.empty((1, 0))), weights, 0, prices
        )
        count = strata.max() + 1
        query = staged_strata.draw(strata, weights, count, np.random.default_rng(0), PRICE)
        for h, (i, chance) in enumerate(zip(query.samples[0], query.probabilities[0], strict=True)):
            members = np.flatnonzero(strata[0] == h)
            assert chance == pytest.approx(by_price(members)[members == i][0])


def test_draws_that_prefer_cheap_samples_are_biased_without_their_probabilities():
    """The enumeration can fail."""
    prices = Prices("tokens", PRICE, 11, STAKES)
    weights, total = np.full(N, 1 / N), 0.0

    def by_price(members):
        return PRICE[members] ** -0.5 / (PRICE[members] ** -0.5).sum()

    for probability, stages, values in paths(prices, weights, by_price):
        wrong = [
            difference.Stage(each.stratum, each.drawn, 1 / each.sizes, each.predicted)
            for each in stages
        ]
        total += probability * difference.estimate(wrong, values, weights)[0]
    assert abs(total - TRUTH.mean()) > 1e-3


def test_the_mean_of_strata_is_unbiased_at_any_prices():
    facts = SampleFacts(N, prices=Prices("tokens", PRICE, 15, STAKES))
    known = ArrayMatrix(one_order(9, N, 1), facts=facts)
    policy = methods.POLICIES["strata"]
    tree = policy.fit(known, ResponsePosterior(N), None, make_context())
    sizes, order = tree["sizes"], tree["order"]
    assert len(sizes) == policy.count_affordable(known.facts.prices) > 2
    parts = np.split(order, np.cumsum(sizes)[:-1])
    means = []
    for drawn in itertools.product(*parts):
        drawn = np.array(drawn)
        assert PRICE[drawn].sum() <= 15
        query = Query(drawn[None], 1 / sizes[None], sizes[None] / N)
        means.append(
            compute_mean_weights(Responses(query, TRUTH[drawn][None]), known.facts) @ TRUTH[drawn]
        )
    assert np.mean(means) == pytest.approx(TRUTH.mean(), abs=1e-12)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 60), st.floats(0.01, 3), st.integers(1, 2))
def test_no_draw_and_no_choice_exceeds_the_budget(seed, n, part, stages):
    random = np.random.default_rng(seed)
    price = np.exp(random.normal(0, 2, n)) if seed % 3 else random.choice([0.1, 0.3, 7.0], n)
    budget = max(float(price.max()), part * float(price.sum()) / 2)
    prices = Prices("dollars", price, budget, random.random(n) + 1e-3)
    found = allot(prices, stages)
    sizes = np.bincount(found.group)
    assert (found.counts.sum(axis=0) <= sizes).all() and (found.counts[0] >= 1).all()
    left = sizes.copy()
    for counts in found.counts:  # each sample that is left has a chance in each stage
        assert (counts[left > 0] >= 1).all()
        left -= counts
    highest = np.array([price[found.group == g].max() for g in range(len(sizes))])
    dearest = float(found.counts.sum(axis=0) @ highest)
    assert dearest <= budget * (1 + 1e-12) or (found.counts.sum() == n and price.sum() <= budget)
    count = prices.count_best()
    asked = np.empty(0, np.int64)
    while len(asked) < count:
        batch = min(3, count - len(asked))
        more = sequential.buy(random.random(n), asked, prices, batch, count - len(asked))
        asked = np.concatenate([asked, np.array(more)])
    assert len({*asked.tolist()}) == count
    assert price[asked].sum() <= budget * (1 + 1e-12)


def test_draws_are_in_proportion_to_the_stake_over_the_root_of_the_price():
    price, stakes = np.repeat([1.0, 16.0], 5000), np.repeat([1.0, 3.0], 5000)
    counts = allot(Prices("tokens", price, 6000, stakes), 1).counts.sum(axis=0)
    assert counts[0] / counts[1] == pytest.approx(4 / 3, rel=0.02)
    assert 5984 < counts @ [1, 16] <= 6000


VALUES = one_order(15, 90, 3)
COSTS = np.round(np.exp(np.random.default_rng(1).normal(3, 1, 90)))
TAKING = [(None, 600), ("stratified_mean", 600), ("uncertainty+linear_gaussian", 20)]


@pytest.fixture(scope="module")
def board():
    return de.read_board(VALUES[1:])


@pytest.mark.parametrize("method,budget", TAKING)
def test_a_session_spends_what_evaluate_spends(tmp_path, board, method, budget):
    how = {"method": method, "prices": COSTS}
    estimate = de.evaluate(board, lambda ids: VALUES[0][ids], f"{budget} tokens", **how)
    spending = estimate.spending
    assert budget / 2 < spending.spent <= budget
    assert spending.saved == COSTS.sum() - spending.spent
    assert f"of {budget} tokens, saved" in str(estimate)
    session = de.Session.start(tmp_path / "s", board, f"{budget} tokens", **how)
    asked = []
    for ids in session:
        asked += ids
        session.tell({each: VALUES[0][each] for each in ids})
    found = session.estimate()
    assert found.spending == spending and COSTS[asked].sum() == spending.spent
    np.testing.assert_array_equal(
        [found.value, found.low, found.high], [estimate.value, estimate.low, estimate.high]
    )
    assert f"({budget} tokens at most)" in session.rule
    # the same session again; another budget is another session
    de.Session.start(tmp_path / "s", board, f"{budget} tokens", **how)
    with pytest.raises(BadInput, match="another session"):
        de.Session.start(tmp_path / "s", board, f"{budget + 1} tokens", **how)


def test_equal_prices_ask_the_samples_of_a_number(board):
    for method in ("stratified_mean", "model_assisted"):
        found, plain = (
            de.evaluate(board, lambda ids: VALUES[0][ids], budget, method, prices=prices)
            for budget, prices in (("36 seconds", np.full(90, 3.0)), (12, None))
        )
        assert found.observed == 12 and found.value == pytest.approx(plain.value, abs=1e-6)


def test_a_sample_without_an_answer_is_replaced_by_none_that_is_dearer(tmp_path, board):
    session = de.Session.start(
        tmp_path / "s", board, "600 tokens", method="stratified_mean", prices=COSTS
    )
    lost = session.ask()[:3]
    session.tell(dict.fromkeys(lost))
    for ids in session:
        session.tell({each: VALUES[0][each] for each in ids})
    estimate = session.estimate()
    assert estimate.failed == 3 and estimate.spending.spent <= 600
    session = de.Session.start(
        tmp_path / "t", board, "600 tokens", method="stratified_mean", prices=COSTS
    )
    with pytest.raises(BadInput, match="gave no answer, and no other one that is not dearer"):
        while ids := session.ask():  # down to the cheapest
            session.tell(dict.fromkeys(ids))
    (tmp_path / "s" / PRICES).write_text("sample,tokens\n0,1\n")
    with pytest.raises(BadInput, match=r"prices.csv: "):
        de.Session(tmp_path / "s").estimate()


@pytest.mark.parametrize(
    "budget,prices,message",
    [
        ("600 tokens", np.where(np.arange(90) == 7, -1, COSTS), "sample 7 has the price -1"),
        ("600 tokens", np.where(np.arange(90) == 7, 0, COSTS), "sample 7 has the price 0"),
        ("600 tokens", np.where(np.arange(90) == 7, np.nan, COSTS), "sample 7 has no price"),
        ("600 tokens", np.where(np.arange(90) == 7, np.inf, COSTS), "sample 7 has the price inf"),
        ("600 tokens", dict.fromkeys(range(89), 1.0), "sample 89 has none"),
        ("600 tokens", COSTS[:5], "5 of them; the board has 90"),
        ("600 tokens", None, "the board has no prices in tokens"),
        ("5 tokens", COSTS, "each must have a chance to be drawn"),
        ("600 euros", COSTS, "'euros'.*dollars"),
        ("-3 tokens", COSTS, "an amount above 0"),
        ("nan tokens", COSTS, "an amount above 0"),
        ("600", COSTS, "an amount above 0"),
        (12, COSTS, "prices need a budget in their unit"),
    ],
)
def test_what_is_no_price_or_no_budget_is_refused(board, budget, prices, message):
    with pytest.raises(BadInput, match=message):
        de.evaluate(board, lambda ids: VALUES[0][ids], budget, prices=prices)


def test_methods_and_rules_that_know_no_prices_are_refused(tmp_path, board):
    arguments = {"prices": COSTS, "method": "random_mean"}
    with pytest.raises(BadInput, match="regardless of their price. For a budget in tokens: strat"):
        de.Session.start(tmp_path / "s", board, "600 tokens", **arguments)
    with pytest.raises(BadInput, match="need a budget that is a number"):
        de.Session.start(tmp_path / "s", board, "600 tokens", until=0.1, **arguments)
    assert parse_budget("2.5 dollars") == (2.5, "dollars")
    np.testing.assert_array_equal(parse_prices({"a": 1, "b": 2}, ["b", "a"], "tokens"), [2, 1])


METHOD = "--method=stratified_mean"
ADD = f"add-model --model=new.csv --cache=c --answered=random {METHOD}"


def evaluate(words, status=0):
    found, output = run(f"nevis-stream evaluate {words}")
    assert found == status, output
    return output


@pytest.fixture
def spent(tmp_path, monkeypatch):
    """A session with a budget in tokens has all its answers: what was said at its beginning, what
    its samples cost, and the line of it. Beside it are files of the prices and of the new model.
    """
    monkeypatch.chdir(tmp_path)
    rows = [
        f"m{row},q{column},{VALUES[row, column]},{COSTS[column] + (-1) ** row}"
        for row in range(1, 11)
        for column in range(90)
    ]
    (tmp_path / "board.csv").write_text("\n".join(["model,sample,outcome,tokens", *rows]))
    prices = [f"q{column},{COSTS[column]}" for column in range(90)]
    (tmp_path / "prices.csv").write_text("\n".join(["sample,tokens", *prices]))
    new = [f"q{column},{VALUES[0, column]},new" for column in range(90)]
    (tmp_path / "new.csv").write_text("\n".join(["sample,outcome,model", *new]))
    begun = evaluate(f"start board.csv --model=new --out=s --budget='600 tokens' {METHOD}")
    asked = evaluate("ask s").split()
    (tmp_path / "a.csv").write_text(
        "\n".join(["sample,value", *(f"{q},{VALUES[0, int(q[1:])]}" for q in asked)])
    )
    evaluate("tell s a.csv")
    cost = sum(int(COSTS[int(q[1:])]) for q in asked)
    line = f"spent {cost:,} of 600 tokens, saved {int(COSTS.sum()) - cost:,}"
    return SimpleNamespace(begun=begun, cost=cost, line=line)


def test_a_session_begins_with_its_prices_and_what_it_is_expected_to_spend(spent):
    assert "prices of samples in tokens" in spent.begun and "(600 tokens at most)" in spent.begun
    # the known model's draws are the same
    assert f"expected, by a known model: {spent.line}" in spent.begun


def test_a_session_says_what_was_spent_and_saved(spent):
    assert f"new: {spent.line}" in evaluate("status s")


def test_the_report_of_a_session_has_what_was_spent(spent, tmp_path):
    evaluate("report s")
    table = (tmp_path / "s/report/estimates.csv").read_text()
    assert f",tokens,600.0,{spent.cost}.0," in table


@pytest.mark.usefixtures("spent")
def test_an_addition_with_a_budget_in_a_unit_needs_its_prices():
    evaluate("import board.csv --cache=c")
    said = evaluate(f"{ADD} --budget='600 tokens'", 2)
    assert "the board has no prices in tokens" in said


@pytest.mark.usefixtures("spent")
def test_prices_need_a_budget_in_their_unit():
    evaluate("import board.csv --cache=c")
    assert "prices need a budget" in evaluate(f"{ADD} --budget=60 --prices=prices.csv", 2)


def test_an_addition_spends_what_a_session_spends_and_records_it(spent, tmp_path):
    evaluate("import board.csv --cache=c")
    assert spent.line in evaluate(f"{ADD} --budget='600 tokens' --prices=prices.csv")
    account = json.loads((tmp_path / "c/additions.jsonl").read_text().splitlines()[-1])
    account = account.get("values", account)
    assert (account["unit"], account["spent"]) == ("tokens", spent.cost)
