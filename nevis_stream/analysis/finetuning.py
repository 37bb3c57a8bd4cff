"""The fine-tuning graph of a run: the task from whose predictor each task started (NEVIS'22,
section 5).
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from nevis_stream.run_directory.ledger import Ledger
from nevis_stream.run_directory.records import TrainRecord


@dataclass(frozen=True)
class Node:
    """One task in the graph.

    Attributes:
      order: place in the stream.
      task_id: the task.
      domain: its domain.
      source: what the chosen trial was initialised from: a task id, "random", "pretrained", or
        "unknown" if the learner does not record it.
      parent: the source if it is an earlier task; None otherwise.
      children: how many later tasks started from this one.
      depth: number of fine-tunings before it: 0 without a parent, else one more than its parent's.
    """

    order: int
    task_id: str
    domain: str
    source: str
    parent: str | None
    children: int
    depth: int


def build_graph(ledger: Ledger) -> list[Node]:
    """Returns every trained task in stream order."""
    rows, depths = [], {}
    for record in ledger.of_kind(TrainRecord):
        source = _source(record)
        # a learner may record anything; only an earlier task can be a parent
        parent = source if source in depths else None
        depths[record.task_id] = 0 if parent is None else depths[parent] + 1
        rows.append((record, source, parent))
    children = Counter(parent for _, _, parent in rows)
    return [
        Node(
            order=record.order,
            task_id=record.task_id,
            domain=record.domain,
            source=source,
            parent=parent,
            children=children[record.task_id],
            depth=depths[record.task_id],
        )
        for record, source, parent in rows
    ]


def find_hubs(nodes: Sequence[Node], most: int = 5) -> list[Node]:
    """Returns up to `most` tasks from which two or more others started, those with most first; of
    equal ones the earlier first.
    """
    ranked = sorted(
        (node for node in nodes if node.children > 1), key=lambda node: (-node.children, node.order)
    )
    return ranked[:most]


def find_longest_chain(nodes: Sequence[Node]) -> list[Node]:
    """Returns the tasks of the longest chain of fine-tunings, from its root on; of equally long
    chains the one that ends first.

    >>> find_longest_chain([])
    []
    """
    by_id = {node.task_id: node for node in nodes}
    node = max(nodes, key=lambda node: (node.depth, -node.order), default=None)
    chain = []
    while node is not None:
        chain.append(node)
        node = by_id.get(node.parent)
    return chain[::-1]


def count_depths(nodes: Sequence[Node]) -> list[int]:
    """Returns how many tasks have 0, 1, 2, … fine-tunings before them."""
    counts = Counter(node.depth for node in nodes)
    return [counts[depth] for depth in range(max(counts, default=-1) + 1)]


def list_isolated(nodes: Sequence[Node]) -> list[Node]:
    """Returns the tasks that started from no other and that no other started from."""
    return [node for node in nodes if node.parent is None and not node.children]


def count_agreement(ledgers: Sequence[Ledger]) -> dict[str, tuple[int, int]]:
    """Returns for each task of the first ledger in how many ledgers its source is that, and how
    many ledgers have trained it.
    """
    sources = [
        {record.task_id: _source(record) for record in ledger.of_kind(TrainRecord)}
        for ledger in ledgers
    ]
    agreement = {}
    for task_id, source in (sources[0] if sources else {}).items():
        of_task = [each[task_id] for each in sources if task_id in each]
        agreement[task_id] = of_task.count(source), len(of_task)
    return agreement


def _source(record: TrainRecord) -> str:
    chosen = record.chosen_trial
    source = chosen.info.get("initialised_from") if chosen else None
    return source if isinstance(source, str) else "unknown"
