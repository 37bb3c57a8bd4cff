"""Studies: settings that ask one question about one choice; docs/studies.md says which."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import ml_collections

from nevis_stream.configs import run_config


@dataclass(frozen=True)
class Study:
    """The central setting of a study, which a sweep varies.

    Attributes:
      learner: its name.
      values: of the learner's config, by dotted name.
    """

    learner: str
    values: Mapping[str, Any]

    def config(self) -> ml_collections.ConfigDict:
        """Returns the config, in which all other values are open."""
        config = run_config.make_default(self.learner)
        config.update_from_flattened_dict(dict(self.values))
        return config


STUDIES: Mapping[str, Study] = {
    "order": Study("ft_prev", {"stream": "shuffled_within_year+partial", "budget": "small"}),
    "domain": Study("ft_dynamic", {"stream": "major_domain_only+partial", "budget": "small"}),
    "size": Study("ft_dynamic", {"stream": "large_dataset_only+partial", "budget": "small"}),
    "stream_variants": Study(
        "ft_dynamic", {"stream": "remove_first_30+partial", "budget": "small"}
    ),
    "multitask": Study("mt", {"stream": "short+partial", "budget": "small"}),
    "bhpo": Study("indep", {"stream": "local25", "budget": "small", "search.method": "bayesian"}),
    "ensembling": Study("ft_dynamic", {"stream": "local25", "budget": "small", "ensemble": 4}),
    "architecture": Study(
        "indep", {"stream": "local25", "budget": "small", "network.name": "resnet18"}
    ),
    "resolution": Study(
        "indep", {"stream": "local25", "budget": "small", "train.largest_batch": 128}
    ),
    "width": Study("indep", {"stream": "local25", "budget": "small"}),
    "split": Study("ft_prev", {"stream": "split_cifar100", "budget": "small"}),
    "cheap_vs_paper": Study("ft_prev", {"stream": "local25", "budget": "small"}),
}
"""The studies, as --config=studies/NAME takes them."""
CONFIGS = {name: study.config for name, study in STUDIES.items()}
