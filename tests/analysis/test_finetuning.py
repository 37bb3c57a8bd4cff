"""The fine-tuning graph of ledgers whose sources are known."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from nevis_stream.analysis.finetuning import (
    build_graph,
    count_agreement,
    count_depths,
    find_hubs,
    find_longest_chain,
    list_isolated,
)
from nevis_stream.run_directory.ledger import History
from nevis_stream.run_directory.records import parse
from tests.report.synthetic import SyntheticRun


def ledger(*sources):
    """Task a, b, c, … each from the given source; the trial that was not chosen came from
    elsewhere.
    """
    header, *_ = SyntheticRun().records()
    records = [header]
    for order, source in enumerate(sources, start=1):
        [_, train, *_] = SyntheticRun().records()
        trials = [
            {"trial": 0, "info": {"initialised_from": "elsewhere"}},
            {"trial": 4, "info": source},
        ]
        trials = [trial | {"predictor_id": "f" * 16, "step": 1} for trial in trials]
        domain = "ocr" if order % 2 else "face"
        task = {"order": order, "task_id": chr(96 + order), "domain": domain}
        records.append(train | {"chosen": 4, "trials": trials} | task)
    return History(Path(), [parse(record) for record in records])


def from_(*sources):
    return ledger(*({"initialised_from": source} for source in sources))


def test_parents_children_and_chains_are_those_of_the_chosen_trials():
    # a <- b <- d <- e, a <- c, f alone, g from weights
    nodes = build_graph(from_("random", "a", "a", "b", "d", "random", "pretrained"))
    assert [node.parent for node in nodes] == [None, "a", "a", "b", "d", None, None]
    assert [node.children for node in nodes] == [2, 1, 0, 1, 0, 0, 0]
    assert [node.depth for node in nodes] == [0, 1, 1, 2, 3, 0, 0]
    assert [node.task_id for node in find_hubs(nodes)] == ["a"]
    assert [node.task_id for node in find_longest_chain(nodes)] == ["a", "b", "d", "e"]
    assert count_depths(nodes) == [3, 2, 1, 1]
    assert [node.task_id for node in list_isolated(nodes)] == ["f", "g"]
    assert nodes[6].source == "pretrained"


def test_what_is_no_task_met_before_is_no_edge():
    nodes = build_graph(
        ledger({"initialised_from": "b"}, {"initialised_from": "b"}, {}, {"initialised_from": 3})
    )
    assert [node.parent for node in nodes] == [None] * 4
    assert [node.source for node in nodes] == ["b", "b", "unknown", "unknown"]


def test_nothing_trained_gives_an_empty_graph():
    nodes = build_graph(ledger())
    assert (
        nodes
        == find_hubs(nodes)
        == find_longest_chain(nodes)
        == count_depths(nodes)
        == list_isolated(nodes)
        == []
    )


def test_seeds_that_agree_are_counted():
    assert count_agreement([from_("random", "a", "b"), from_("random", "a", "a"), from_("random", "random")]) == {  # noqa: E501
        "a": (3, 3), "b": (2, 3), "c": (1, 2),
    }  # fmt: skip
    assert count_agreement([]) == {}


@given(st.lists(st.integers(0, 12), min_size=1, max_size=12))
def test_the_graph_is_a_forest(draws):
    sources = ["random" if draw >= order else chr(97 + draw) for order, draw in enumerate(draws)]
    nodes = build_graph(from_(*sources))
    by_id = {node.task_id: node for node in nodes}
    assert sum(node.children for node in nodes) == sum(node.parent is not None for node in nodes)
    assert sum(count_depths(nodes)) == len(nodes)
    for node in nodes:
        steps, at = 0, node
        while at.parent:
            assert by_id[at.parent].order < at.order
            at, steps = by_id[at.parent], steps + 1
        assert steps == node.depth
    chain = find_longest_chain(nodes)
    assert len(chain) == max(node.depth for node in nodes) + 1
    assert all(
        later.parent == earlier.task_id for earlier, later in zip(chain, chain[1:], strict=False)
    )
