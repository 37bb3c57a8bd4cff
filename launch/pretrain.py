"""Makes the file of pre-trained weights that pt_isup, pt_ext, pt_mt and pt_ft start from.

  python -m launch.pretrain --config=indep --tasks=pico_digits --out=weights.safetensors
  python -m launch.pretrain --config=indep \\
      --config.stream=local25 --tasks=meta_train --out=joint.safetensors
  python -m launch.pretrain --config=indep --config.network.name=resnet34 \\
      --config.network.stem=standard --config.network.padding=torch --import_file=resnet34.safetensors \\
      --layout=torchvision_resnet --flops=1.9e19 --trained_on=ImageNet --out=imagenet.safetensors

The config gives the network, search, steps and stream; --tasks names tasks of the stream, or
meta_train for all meta-train tasks at once. The cost is written into the file, and charged to every
run that starts from it. Afterwards:
  python -m launch.run --config=pt_isup --config.pretrained.path=weights.safetensors --run_dir=runs/pt
"""  # noqa: E501

import math
from pathlib import Path

from absl import flags

from nevis_stream.cost.meter import format_engineering
from nevis_stream.launch import command_line, config_flag, entry
from nevis_stream.streams.named_streams import load_stream
from nevis_stream.terminal import TerminalProgress

command_line.define_config()
_TASKS = flags.DEFINE_list(
    "tasks", None, "Tasks of the stream, separated by commas, or meta_train."
)
_OUT = flags.DEFINE_string(
    "out", None, "Path of the file of weights to write, for example weights.safetensors."
)
_STAND_IN = flags.DEFINE_string(
    "stand_in_for",
    "",
    "The data set that these weights replace because it is not available; shown in results.",
)
_FILE = flags.DEFINE_string(
    "import_file",
    None,
    "File of another library's weights (.safetensors or .npz), to import instead of training.",
)
_LAYOUT = flags.DEFINE_string(
    "layout",
    None,
    "How that file names its tensors: torchvision_resnet, timm_resnet or timm_nfnet.",
)
_FLOPS = flags.DEFINE_float(
    "flops", None, "FLOPs that it took to train the imported weights.", lower_bound=0
)
_TRAINED_ON = flags.DEFINE_string(
    "trained_on", None, "Data that the imported weights were trained on."
)
command_line.define_data_dir()


def main(_):
    """Pre-trains or imports."""
    if not _OUT.value:
        entry.fail("--out is missing: the path of the file of weights to write.")
    if bool(_TASKS.value) == bool(_FILE.value):
        entry.fail("give either --tasks (to pre-train) or --import_file (to import weights).")
    from nevis_stream.configs import pretraining, run_config

    config, out = run_config.resolve(config_flag.get_words().config()), Path(_OUT.value)
    if _FILE.value:
        for name, value in (
            ("layout", _LAYOUT.value),
            ("flops", _FLOPS.value),
            ("trained_on", _TRAINED_ON.value),
        ):
            if value is None or not str(value).strip():
                entry.fail(
                    f"--{name} is missing: a file of imported weights records what they were"
                    " trained on and what that cost."
                )
        if not math.isfinite(_FLOPS.value):
            entry.fail(f"--flops={_FLOPS.value}: the cost of the weights must be a finite number.")
        facts = pretraining.import_weights(
            config,
            Path(_FILE.value),
            _LAYOUT.value,
            out,
            _TRAINED_ON.value,
            int(_FLOPS.value),
            _STAND_IN.value,
        )
    else:
        entry.use_compilation_cache()
        entry.stop_at_signals()
        stream = load_stream(config.stream)
        with TerminalProgress(f"pre-train on {','.join(_TASKS.value)}") as progress:
            facts = pretraining.pretrain(
                config, stream, _TASKS.value, out, _STAND_IN.value, progress=progress
            )
    print(
        f"{out}: {facts.network['name']} pre-trained on {facts.trained_on},"
        f" {format_engineering(facts.flops)} FLOPs"
    )
    options = f"--config=pt_isup --config.pretrained.path={out} --run_dir=runs/pt"
    print(entry.as_typed(f"next: python -m launch.run {options}"))


if __name__ == "__main__":
    config_flag.start(main)
