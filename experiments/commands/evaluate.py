"""The subcommands `metrics` and `study` of `launch.evaluate`."""

from nevis_stream.launch.command_line import (
    define,
    define_list,
    define_number,
    define_text,
    define_whole,
    make_subcommand,
)
from nevis_stream.launch.evaluate_commands.flags import (
    define_reading_flags,
    define_table_flags,
    list_methods,
    parse_with,
)

METRICS = make_subcommand(
    "experiments.commands",
    "study.measure_methods",
    "metrics",
    "Measures how accurate the methods are on a cache.",
    "metrics --cache=caches/mine",
    needs=("cache",),
    details="Some of the cache's models are treated as new. The results are written into the"
    " cache, where the report finds them.",
    lists=lambda: list_methods(bounds=True),
)
STUDY = make_subcommand(
    "experiments.commands",
    "study.run_study",
    "study",
    "Compares methods on files of models × samples, with tables and figures.",
    "study a.npz b.npz --budgets=16,64,256 --known=0.6 --seeds=10 --out=study",
    "study a.npz --policies=strata,quadrature,fisher --predictors=mean,irt_2pl --out=crossing",
    "study a.npz --model_facts=models.csv --model_split=by:date --out=by_date",
    words="FILE ...",
    details="Continues where it was stopped.",
    lists=lambda: list_methods(bounds=True),
)
SUBCOMMANDS = (METRICS, STUDY)


def _budgets(text: str) -> list[int]:
    for word in text.split(","):
        if not word.isdecimal() or int(word) < 1:
            raise ValueError(f"{word!r} is not a whole number above 0; an example: 16,64,256.")
    return sorted({int(word) for word in text.split(",")})


define_text((METRICS,), "cache", None, "Directory of a cache, or of several caches.")
define_table_flags(STUDY.flags)
define_reading_flags(STUDY.flags)
define_text(
    (STUDY,),
    "features",
    None,
    "FILE.npz that describes the samples: `features`, float[n, d], and optionally the samples'"
    " ids, `samples`.",
)
define_list(
    SUBCOMMANDS,
    "methods",
    [],
    "Methods to compare; `default`: what add-model chooses; none: the main ones.",
)
define_list(SUBCOMMANDS, "policies", [], "Policies to cross with --predictors, or `all`.")
define_list(SUBCOMMANDS, "predictors", [], "Predictors to cross with --policies, or `all`.")
define_text(
    (STUDY,),
    "model_split",
    "",
    "Known and new models: random, group (whole groups), biased:KIND (known models of one"
    " group, of groups such as roberta*, or COLUMN=VALUE, all others new), by:COLUMN (the first"
    " ones, for example by date), or stronger or weaker (the best or worst quarter new)."
    " Default: group where there are groups.",
)
define_text(
    (STUDY,),
    "model_facts",
    None,
    "Csv of facts about models: `model` and further columns, for --model_split.",
)
define_text(
    (STUDY,),
    "hide",
    "",
    "Data sets on which known models are not observed (cold start): names, or their number.",
)
define_text(
    (STUDY,),
    "config",
    None,
    "Toml file of these flags, such as experiments/studies/cold_start.toml; flags of the"
    " command replace its values.",
)
define(
    parse_with(_budgets),
    SUBCOMMANDS,
    "budgets",
    "16,64,256",
    "Numbers of samples on which each new model is evaluated.",
)
define_number(
    SUBCOMMANDS,
    "known",
    0.6,
    "Fraction of the models that are known; the others are treated as new.",
    lower_bound=0.0,
    upper_bound=1.0,
)
for _command, _count in ((METRICS, 3), (STUDY, 10)):
    define_whole(
        (_command,), "seeds", _count, "Number of random splits of the models.", lower_bound=1
    )
define_text((STUDY,), "out", "study", "Directory of the tables and figures.")
