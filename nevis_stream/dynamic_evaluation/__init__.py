"""Dynamic evaluation: a growing, partly known matrix of outcomes, models × samples, and the
evaluation of new rows and columns at a fraction of the cost.

    from nevis_stream import dynamic_evaluation as de

    board = de.read_board("leaderboard.csv")
    estimate = de.evaluate(board, my_model, budget=64)  # my_model takes ids and returns values
    print(estimate)
"""

from typing import TYPE_CHECKING

from nevis_stream.lazy import load_lazily

if TYPE_CHECKING:
    from nevis_stream.dynamic_evaluation.comparison import Comparison as Comparison
    from nevis_stream.dynamic_evaluation.comparison import compare as compare
    from nevis_stream.dynamic_evaluation.evaluation import evaluate as evaluate
    from nevis_stream.dynamic_evaluation.evaluation import evaluate_metrics as evaluate_metrics
    from nevis_stream.dynamic_evaluation.other_metrics import estimate_metric as estimate_metric
    from nevis_stream.dynamic_evaluation.planning import BudgetPlan as BudgetPlan
    from nevis_stream.dynamic_evaluation.planning import plan as plan
    from nevis_stream.dynamic_evaluation.session import Session as Session
    from nevis_stream.errors import AnsweringFailed as AnsweringFailed
    from nevis_stream.evaluation_cache.boards import read_board as read_board
    from nevis_stream.evaluation_cache.evaluation_cache import EvaluationCache as EvaluationCache
    from nevis_stream.queries.board import Board as Board
    from nevis_stream.queries.oracle import Cost as Cost
    from nevis_stream.queries.oracle import Estimate as Estimate

_HOMES = {
    "AnsweringFailed": "errors",
    "Board": "queries.board",
    "Comparison": "dynamic_evaluation.comparison",
    "Cost": "queries.oracle",
    "Estimate": "queries.oracle",
    "EvaluationCache": "evaluation_cache.evaluation_cache",
    "BudgetPlan": "dynamic_evaluation.planning",
    "Session": "dynamic_evaluation.session",
    "compare": "dynamic_evaluation.comparison",
    "estimate_metric": "dynamic_evaluation.other_metrics",
    "evaluate": "dynamic_evaluation.evaluation",
    "evaluate_metrics": "dynamic_evaluation.evaluation",
    "plan": "dynamic_evaluation.planning",
    "read_board": "evaluation_cache.boards",
}
__all__ = list(_HOMES)  # noqa: PLE0604

if not TYPE_CHECKING:  # to a type checker, a name that is not above is a mistake
    __getattr__, __dir__ = load_lazily(__name__, _HOMES)
