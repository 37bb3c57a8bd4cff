"""Budgets of the paper's learners on `local25`, and the weights that some of them start from."""

import sys
from pathlib import Path

STREAM = "local25"
_ONE_TRIAL = {
    "search.trials": "1",
    "search.learning_rate": "(0.1,0.1)",
    "search.label_smoothing": "(0.1,0.1)",
    "select.train_cap": "10000",
    "select.dev_cap": "5000",
}
BUDGETS = {
    "2x480": {"search.trials": "2", "train.steps": "480", "train.validate_every": "120"},
    "1x2400": {**_ONE_TRIAL, "train.steps": "2400", "train.validate_every": "600"},
    "1x10000": {**_ONE_TRIAL, "train.steps": "10000", "train.validate_every": "2500"},
}
_OMNIGLOT = ("--config.stream=omniglot", "--tasks=omniglot", "--stand_in_for=ImageNet")
_PRETRAIN = {  # name of the file, and the flags of launch.pretrain
    "isup": (*_OMNIGLOT, "--config.train.steps=1920"),
    "ext": (*_OMNIGLOT, "--config.train.steps=1920", "--config.network.width=24"),
    "mt": (f"--config.stream={STREAM}", "--tasks=meta_train", "--config.train.steps=4800"),
}
LEARNERS = {  # name, and the weights that it starts from
    "indep": "",
    "ft_prev": "",
    "ft_dynamic": "",
    "mt": "",
    "ft_static": "",
    "bhpo": "",
    "pt_isup": "isup",
    "pt_ft": "isup",
    "pt_mt": "mt",
    "pt_ext": "ext",
}


def make_pretraining(name: str, file: Path) -> list[str]:
    """Returns the command that pre-trains a backbone, or continues, if it is not finished."""
    command = [sys.executable, "-m", "launch.pretrain", "--config=indep", "--config.budget=small"]
    return [*command, "--config.search.trials=2", *_PRETRAIN[name], f"--out={file}"]
