"""The terms of the page and their meaning: the glossary at its end, and tooltips. Caches and
studies of dynamic evaluation have terms of their own.
"""

import re

TERMS = {
    "Stream": (
        "Tasks in the order of their years. The learner meets each task once, in this order, and"
        " may reuse what it learned before."
    ),
    "Digest": (
        "16 hex digits that change with any task, image, label or split of the stream. Only runs"
        " with the same digest and protocol are compared."
    ),
    "Task": (
        "One data set to learn, with its splits: train (gradient steps), dev (choices inside the"
        " task), dev_test and test (scores that the learner never sees)."
    ),
    "Protocol": (
        "Which scores count. meta_test: the test split of the meta-test tasks, after one pass over"
        " the whole stream. meta_train: the dev_test split of the meta-train tasks. The tasks whose"
        " scores count are called judged."
    ),
    "Error": (
        "Between 0 and 1, lower is better. Error rate: the share of samples whose most probable"
        " class is wrong. 1 − mAP (images with several labels): one minus the mean over labels of"
        " the average precision."
    ),
    "Percentage point": "One hundredth: an error of 0.29 is one percentage point below 0.30.",
    "Mean error": (
        "The mean of the errors on the judged tasks, each task with the same weight (E in the"
        " paper)."
    ),
    "FLOP": (
        "One floating-point operation, such as an addition or a multiplication. FLOPs are counted"
        " from the compiled programs."
    ),
    "Training FLOPs": (
        "FLOPs of the train phase, summed over the whole stream and over every trial of every"
        " task (cFLOP in the paper)."
    ),
    "All FLOPs": "FLOPs of all phases together, including the learner's initialisation.",
    "Phase": (
        "What FLOPs were spent on. Pretrain: before the first task; train: gradient steps; select:"
        " choosing what to start from; validate: dev scores; predict: answers on the judged split."
    ),
    "Engineering notation": "12.3e15 is 12.3 × 10¹⁵; exponents are multiples of three.",
    "Learner": "The algorithm. indep learns each task alone, from random parameters.",
    "Budget": "A learner's preset of trials and steps per task.",
    "Trial": (
        "One draw of hyper-parameters, trained once. The chosen trial has the lowest dev error."
    ),
    "Method": "Runs that differ only in their seed: a learner with a budget and settings.",
    "n": "The number of seeds in a mean, unless another unit is given.",
    "±": "One sample standard deviation over seeds, for means and bands; absent for one seed.",
    "Pareto front": (
        "The methods that no other method dominates. A method is dominated if another has no"
        " higher mean error and no higher FLOPs, and is lower in at least one of the two."
    ),
    "Regret": (
        "The method's error minus the error of the indep run with the same budget and seed, summed"
        " over the tasks so far. Below zero is better than learning each task alone."
    ),
    "Dev error": "The learner's own error on the dev split, which it uses to choose.",
    "Partial, missing, undefined": (
        "Partial: the run has not reached this task yet; missing: the run ended without this"
        " result; undefined: predicted, but the metric has no value. They enter no mean."
    ),
}

EVALUATION_TERMS = {
    "Cache": "Values of models on samples: observed cells, and apart from them predicted ones.",
    "Known model": (
        "A model that methods learn from, because enough of its cells were observed; any other"
        " is new."
    ),
    "Budget": "The number of samples on which each new model is evaluated.",
    "MAE": (
        "Mean absolute error of the values of a new model on all samples, where observed ones count"
        " 0. For outcomes: the share that was predicted wrongly."
    ),
    "accuracy error": "The absolute error of a new model's estimated mean over all samples.",
    "Spearman": (
        "Spearman's rank correlation between the estimated and the true means of the new models:"
        " 1 if they are in the same order."
    ),
    "Kendall": (
        "Kendall's rank correlation between the estimated and the true means of the new models:"
        " 1 if every pair of models is in the same order, −1 if every pair is in the opposite one."
    ),
    "covered": (
        "The share of 95% intervals that contain the true mean; 0.95 is ideal. Absent if the method"
        " gives no interval."
    ),
}


def make_anchor(term: str) -> str:
    """Returns the id of a term's entry.

    >>> make_anchor("Pareto front"), make_anchor("±")
    ('term-pareto-front', 'term-plus-minus')
    """
    return "term-" + re.sub(r"[^a-z]+", "-", term.lower().replace("±", "plus-minus")).strip("-")
