"""What stands below a figure in a file of its own: what n is, and what its band or bar is; the page
says so beside it.
"""

_SEEDS = "± one sample standard deviation over the n seeds, where n ≥ 2"
_MEANS = "A line: the mean over the n seeds of a method"
_CAPTIONS = {
    "points": (
        f"A mark: the mean over a method's n seeds (points.csv). Bars: {_SEEDS}. Solid lines: the"
        " front; hollow marks: dominated."
    ),
    "regret": f"{_MEANS}. Bands: {_SEEDS}. The line at zero is Indep.",
    "regret_and_compute": (
        f"{_MEANS} (regret_in_flops.csv). Bands: {_SEEDS}. The line at zero is Indep."
    ),
    "slices": (
        "n: tasks of a slice. Bars: 95% interval of the mean difference to Indep (studentised"
        " bootstrap)."
    ),
    "differences": (
        "n tasks and seeds: pairs.csv. Line: 95% interval over tasks and seeds; pale bar: over"
        " seeds alone."
    ),
    "costs": "",  # what it would say stands at the axis
    "costs_along_the_stream": "A line: the mean over the n runs of a method; no bands.",
    "curves": "",  # likewise
    "forward_transfer": (
        "A pair of lines: one run, n of them a method; no bands. Dev accuracy of the chosen trial."
    ),
    "finetuning_depths": "Bars: tasks with so many fine-tunings behind them, in one run (n = 1).",
    "finetuning_graph": (
        "An arc: from a task to one that started from its predictor, in one run (n = 1); no bands."
    ),
    "transfer_matrix": "A cell: one run (n = 1); no bands.",
    "evaluation_budget": (
        "A line: the mean over n random splits of the models. Bands: ± one standard deviation over"
        " them."
    ),
    "evaluation_outcomes": (
        "A pixel: one outcome (n = 1), or several where they are more than pixels; no bands."
    ),
    "samples": (
        "First row of a task: training images. Below: worst mistakes of one run (n = 1, no bands)"
        " of a method, those with the least probable true class first, as true → predicted"
        " (probability of the predicted)."
    ),
    "evaluation_truth": (
        "A dot: a new model. Bars: 95% intervals. On the dashed line estimate and truth are equal."
    ),
    "evaluation_parts": "A line: the mean over new models and n random splits; no bands.",
}


def caption(figure: str) -> str:
    """Returns the words for a figure by its file's stem, none where it has them inside; those that
    are numbered share theirs.

    Raises:
      KeyError: a figure without a caption.
    """
    stems = [stem for stem in _CAPTIONS if figure == stem or figure.startswith(f"{stem}_")]
    return _CAPTIONS[max(stems, key=len, default=figure)]
