"""The words of the page and what they mean: the glossary at its end, and the tooltips of the same
words.
"""

import re

TERMS = {
    "Stream": (
        "Tasks in the order of their years; the learner meets them once, in this order, and may"
        " reuse what it learned before."
    ),
    "Digest": (
        "16 hex digits that change with any task, image, label or split of the stream. Only runs"
        " with the same digest and protocol are compared."
    ),
    "Task": (
        "One data set to be learned, with its splits: train (gradient steps), dev (choices inside"
        " the task), dev_test and test (scores that the learner never sees)."
    ),
    "Protocol": (
        "What is judged: meta_test judges the test split of the meta-test tasks, after one pass"
        " over the whole stream; meta_train judges the dev_test split of the meta-train tasks."
    ),
    "Error": (
        "Between 0 and 1, lower is better. Error rate: the part of the samples whose most probable"
        " class is wrong. 1 − mAP (images with several labels): one minus the mean over labels of"
        " the average precision."
    ),
    "E": "The mean error over the judged tasks, each task with the same weight.",
    "FLOP": (
        "One floating-point operation, such as an addition or a multiplication; counted from the"
        " compiled programs."
    ),
    "cFLOP, paper": (
        "FLOPs of the train phase, cumulative over the whole stream: every trial of every task."
    ),
    "cFLOP, full": "FLOPs of all phases together, the learner's initialisation included.",
    "Phase": (
        "What FLOPs were spent on. Pretrain: before the first task; train: gradient steps; select:"
        " choosing what to start from; validate: dev scores; predict: answering the judged split."
    ),
    "Engineering notation": "12.3e15 is 12.3 × 10¹⁵; exponents are multiples of three.",
    "Learner": "The method. Indep learns each task alone, from random parameters.",
    "Budget": "A learner's preset of trials and steps a task.",
    "Trial": "One draw of hyper-parameters, trained once; the chosen one has the lowest dev error.",
    "Method": "Runs that differ only in their seed: a learner with a budget and settings.",
    "n": "How many seeds are behind a mean, unless another unit stands beside it.",
    "±": "One sample standard deviation over seeds, of means and bands alike; none for n = 1.",
    "Pareto front": (
        "The methods that no other method beats: none has a lower or equal E and a lower or equal"
        " cFLOP with one of them lower. The others are dominated."
    ),
    "Regret": (
        "The sum, over the tasks seen so far, of the method's error minus that of the Indep run"
        " with the same budget and seed. Below zero is better than learning each task alone."
    ),
    "Dev error": "The learner's own error on the dev split, which it uses to choose.",
    "Partial, missing, undefined": (
        "Partial: the run has not come to this task yet; missing: it ended without this result;"
        " undefined: predicted, but the metric has no value. They enter no mean."
    ),
}


def anchor(term: str) -> str:
    """Returns the id of a term's entry.

    >>> anchor("Pareto front"), anchor("±")
    ('term-pareto-front', 'term-plus-minus')
    """
    return "term-" + re.sub(r"[^a-z]+", "-", term.lower().replace("±", "plus-minus")).strip("-")
