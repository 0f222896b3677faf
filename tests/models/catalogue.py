"""The real models: where they lie, what verdict is right, and where their requests come from."""

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import numpy as np
import pytest

from tests.models import inputs as real
from tests.models.inputs import MODELS, Inputs

EXACT, TOLERANT, PAD_UNSAFE = "exact", "tolerant", "pad-unsafe"
BATCH_SENSITIVE, BATCH_FIXED = "batch-sensitive", "batch-fixed"


@dataclass(frozen=True, slots=True)
class RealModel:
    """One model under test.

    Attributes:
        name: Of its folder, and under which it is served.
        verdict: What the probe must find.
        requests: Gives this many real requests.
        count: How many requests a test sends; fewer where one takes long.
        tolerance: How far an answer may be from the model run alone, of its largest value.
        file: The model's file, where it is not in the models' folder.
    """

    name: str
    verdict: str
    requests: Callable[[int], Iterable[Inputs]]
    count: int = 100
    tolerance: float = 0.0
    file: Path | None = None

    @property
    def path(self) -> Path:
        """The model's file."""
        return self.file or MODELS / self.name / "model.onnx"

    @property
    def source(self) -> str:
        """The same in the words of `xirang serve`."""
        return f"{self.name}={self.file or MODELS / self.name}"

    def require(self) -> None:
        """Skip where the model is not laid out, and fail where all are expected: in CI."""
        if self.path.exists():
            return
        reason = f"{self.path} is not there: run make models"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)

    def run_alone(self, inputs: Mapping[str, np.ndarray]) -> Inputs:
        """The reference: one request, straight through ONNX Runtime."""
        session, names = _session(self.path)
        return dict(zip(names, session.run(names, dict(inputs)), strict=True))


@cache
def _session(path: Path):
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return session, [output.name for output in session.get_outputs()]


def _light(name: str) -> Path:
    import onnx

    return Path(onnx.__file__).parent / "backend" / "test" / "data" / "light" / f"{name}.onnx"


# The verdicts are what direct runs show on these requests (alone, beside others, padded). A model
# whose axis is declared open but may not be padded (the direction's width, the steps of speech)
# is pad-unsafe: equal shapes share a run, and the answers are then those of the model alone.
_IDS = ("input_ids", "attention_mask", "token_type_ids")

_WIDTHS = (96, 160, 224, 320, 416, 512)

MODELS_BY_NAME = {
    model.name: model
    for model in (
        RealModel(
            "all-MiniLM-L6-v2",
            EXACT,
            partial(real.tokens, names=_IDS),
            # The file alone: beside its tokenizer it would get a pooled output, which rounds.
            file=MODELS / "all-MiniLM-L6-v2" / "model.onnx",
        ),
        RealModel("all-MiniLM-L6-v2-quantised", BATCH_SENSITIVE, partial(real.tokens, names=_IDS)),
        RealModel("splade-tiny", EXACT, partial(real.tokens, names=_IDS[:2], length_max=96)),
        RealModel(
            "paraphrase-MiniLM-L3-v2",
            TOLERANT,
            partial(real.tokens, names=_IDS[:2]),
            tolerance=1e-5,
        ),
        RealModel("ocr-detection", PAD_UNSAFE, real.scenes),
        RealModel("ocr-recognition", PAD_UNSAFE, partial(real.line_parts, widths=_WIDTHS)),
        RealModel(
            "ocr-direction", PAD_UNSAFE, partial(real.line_parts, widths=_WIDTHS, width_to=192)
        ),
        RealModel("silero-vad", PAD_UNSAFE, lambda count: real.listening(count, _silero_alone)),
        # Of a file that it takes for either of two kinds, rounding moved the odds by 1.9e-4.
        RealModel("magika", TOLERANT, real.files, tolerance=1e-3),
        RealModel("digits-forest", EXACT, real.digits),
        RealModel("digits-logistic", TOLERANT, real.digits, tolerance=1e-5),
        RealModel("efficientnet-lite0", EXACT, partial(real.crops, rows_max=2)),
        RealModel("ddddocr", BATCH_FIXED, real.captchas, count=30),
        RealModel("bilstm-without-mask", PAD_UNSAFE, real.letters),
        RealModel("unsafe-mean-without-mask", PAD_UNSAFE, real.letters, tolerance=1e-5),
        RealModel("unsafe-batch-norm-in-training", BATCH_SENSITIVE, partial(real.digits, width=32)),
        RealModel("unsafe-softmax-over-batch", BATCH_SENSITIVE, partial(real.digits, width=32)),
        RealModel("unsafe-scale-over-all", BATCH_SENSITIVE, partial(real.digits, width=32)),
        RealModel(
            "light_squeezenet",
            BATCH_FIXED,
            partial(real.crops, name="data_0"),
            count=30,
            file=_light("light_squeezenet"),
        ),
        RealModel(
            "light_shufflenet",
            BATCH_FIXED,
            partial(real.crops, name="gpu_0/data_0"),
            count=30,
            file=_light("light_shufflenet"),
        ),
        RealModel(
            "light_resnet50",
            BATCH_FIXED,
            partial(real.crops, name="gpu_0/data_0"),
            count=10,
            file=_light("light_resnet50"),
        ),
    )
}


def _silero_alone(inputs: Inputs) -> Inputs:
    return MODELS_BY_NAME["silero-vad"].run_alone(inputs)
