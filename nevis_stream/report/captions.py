"""Captions of figures that are files of their own: what n counts, and what bars and bands show."""

_SEEDS = "± one sample standard deviation over the n seeds, where n ≥ 2"
_MEANS = "Line: mean over the n seeds of a method"
_CAPTIONS = {
    "points": (
        f"Mark: mean over a method's n seeds (points.csv). Bars: {_SEEDS}. Solid lines: the"
        " front; hollow marks: dominated."
    ),
    "regret": f"{_MEANS}. Bands: {_SEEDS}. Zero: Indep.",
    "regret_and_compute": (f"{_MEANS} (regret_in_flops.csv). Bands: {_SEEDS}. Zero: Indep."),
    "slices": (
        "n: tasks in a slice. Bars: 95% interval of the mean difference to Indep (studentised"
        " bootstrap)."
    ),
    "differences": (
        "n: see pairs.csv. Line: 95% interval over tasks and seeds; pale bar: over seeds alone."
    ),
    "costs": "",  # the axis says it
    "costs_along_the_stream": "Line: mean over the n runs of a method; no bands.",
    "curves": "",  # the figure says it
    "forward_transfer": (
        "Each pair of lines is one run, n per method; no bands. Dev accuracy of the chosen trial."
    ),
    "finetuning_depths": "Bar: tasks with this many fine-tunings before them, in one run (n = 1).",
    "finetuning_graph": (
        "Arc: from a task to one that started from its predictor, in one run (n = 1); no bands."
    ),
    "transfer_matrix": "Cell: one run (n = 1); no bands.",
    "answering": "Line: mean over n seeds (answering.csv); no bands.",
    "evaluation_budget": (
        "Line: mean over n random splits of the models. Bands: ± one standard deviation"
        " over splits."
    ),
    "evaluation_outcomes": ("Pixel: one outcome (n = 1), or the mean of several; no bands."),
    "samples": (
        "First row of a task: training images. Below: worst mistakes of one run (n = 1, no bands)"
        " of a method, those whose true class got the lowest probability first, as true → predicted"
        " (probability of the predicted)."
    ),
    "evaluation_truth": (
        "Dot: a new model. Bars: 95% intervals. Dashed line: the estimate equals the truth."
    ),
    "study_error": (
        "Line: mean over n splits of the models, new models averaged. Bands: ± one standard error"
        " over splits."
    ),
    "study_crossing": "Cell: mean absolute error of the mean over n splits; no bands.",
    "evaluation_parts": "Line: mean over new models and n random splits; no bands.",
}


def caption(figure: str) -> str:
    """Returns the caption of a figure by its file's stem; empty where the figure itself explains
    its marks. Numbered figures share a caption.

    Raises:
      KeyError: a figure without a caption.
    """
    stems = [stem for stem in _CAPTIONS if figure == stem or figure.startswith(f"{stem}_")]
    return _CAPTIONS[max(stems, key=len, default=figure)]
