"""What this project offers by name to `nevis_stream` (see `nevis_stream.extensions`)."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from nevis_stream.configs import run_config
from nevis_stream.errors import BadInput, unknown
from nevis_stream.learner import Configure, ConfiguredLearner
from nevis_stream.learners.closed_form.patch_features import PatchFeatures
from nevis_stream.learners.table import TABLE


def configure_learner(
    name: str, preset: str | None, values: Mapping[str, Any]
) -> ConfiguredLearner:
    """Returns a learner of the table, as `launch.run --config=NAME --config.budget=PRESET` builds
    it.
    """
    config = run_config.make_default(name)
    if preset is not None:
        config.budget = preset
    fields = run_config.list_fields(name)
    own = {key: field for key, field in fields.items() if key not in run_config.COMMON}
    for key, value in values.items():
        if key not in own:
            raise BadInput(f"learner {name}: {unknown('value', key, own)}")
        config.update_from_flattened_dict({key: own[key].check(value)})
    return _configured(run_config.resolve(config))


def _configured(config: run_config.RunConfig) -> ConfiguredLearner:
    return ConfiguredLearner(
        config.build(),
        run_config.to_json(config),
        lambda begun: _configured(config.as_begun(begun)),
    )


LEARNERS: Mapping[str, Configure] = dict.fromkeys(TABLE, configure_learner)


def describe_patches(images: np.ndarray, seed: int = 0) -> np.ndarray:
    """Returns features of images, float32[n, d], from how strongly patches occur in them.

    Args:
      images: uint8[n, side, side, channels], side at least 8.
      seed: of the patches.
    """
    return PatchFeatures.fit(images, seed)(images)
