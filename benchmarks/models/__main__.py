"""Lays out every real model below ./models: `python -m benchmarks.models`.

What is there is left alone, so a call that was broken off is taken up by the next.
"""

import argparse
import importlib.util
import inspect
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.models import captcha, digits, efficientnet, heads, minilm, splade, unsafe
from benchmarks.models.packages import PACKAGES, lay_out, sha256_of

ROOT = Path("models")
MARK = ".recipe"


@dataclass(frozen=True, slots=True)
class Recipe:
    """A model that is built.

    Attributes:
        name: Of its folder.
        build: Takes the root and the folder to write into.
        needs: Modules without which it is left out.
    """

    name: str
    build: Callable[[Path, Path], None]
    needs: tuple[str, ...] = ()

    @property
    def mark(self) -> str:
        """Changes with the code that builds the model."""
        return sha256_of(Path(inspect.getfile(self.build)))

    def is_laid_out(self, root: Path) -> bool:
        """Whether the model lies there, made by this code."""
        mark, model = root / self.name / MARK, root / self.name / "model.onnx"
        return model.is_file() and mark.is_file() and mark.read_text() == self.mark


RECIPES = (
    Recipe("all-MiniLM-L6-v2", minilm.build, ("tokenizers",)),
    Recipe("all-MiniLM-L6-v2-quantised", minilm.build_quantised),
    Recipe("topics-MiniLM", heads.build_topics, ("sklearn", "tokenizers")),
    Recipe("answers-MiniLM", heads.build_answers),
    Recipe("splade-tiny", splade.build, ("tokenizers",)),
    Recipe("digits-forest", digits.build_forest, ("sklearn", "skl2onnx")),
    Recipe("digits-logistic", digits.build_logistic, ("sklearn", "skl2onnx")),
    Recipe("efficientnet-lite0", efficientnet.build, ("torch",)),
    Recipe("ddddocr", captcha.build),
    Recipe("bilstm-without-mask", unsafe.build_bilstm),
    Recipe("unsafe-mean-without-mask", unsafe.build_mean_without_mask),
    Recipe("unsafe-batch-norm-in-training", unsafe.build_batch_norm_in_training),
    Recipe("unsafe-softmax-over-batch", unsafe.build_softmax_over_batch),
    Recipe("unsafe-scale-over-all", unsafe.build_scale_over_all),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=ROOT)
    root = parser.parse_args().folder
    for package in PACKAGES:
        _tell(package.requirement, lambda package=package: lay_out(package, root))
    left_out = [recipe.name for recipe in RECIPES if not _make(recipe, root)]
    if left_out:
        raise SystemExit(f"left out: {', '.join(left_out)}; pip install 'xirang[models]'")


def _make(recipe: Recipe, root: Path) -> bool:
    missing = [name for name in recipe.needs if importlib.util.find_spec(name) is None]
    if missing:
        print(f"  {recipe.name:<42} needs {', '.join(missing)}")
        return False
    _tell(recipe.name, lambda: _build(recipe, root))
    return True


def _build(recipe: Recipe, root: Path) -> bool:
    """Build into a folder aside, then move the files: a model is whole or not there."""
    if recipe.is_laid_out(root):
        return False
    home = root / recipe.name
    with tempfile.TemporaryDirectory(prefix=".build-", dir=root) as folder:
        recipe.build(root, Path(folder))
        home.mkdir(exist_ok=True)
        for file in Path(folder).iterdir():
            shutil.move(file, home / file.name)
    (home / MARK).write_text(recipe.mark)
    return True


def _tell(name: str, work: Callable[[], bool]) -> None:
    start_s = time.perf_counter()
    is_new = work()
    took = f"{time.perf_counter() - start_s:6.1f} s" if is_new else "    there"
    print(f"  {name:<42} {took}", flush=True)


if __name__ == "__main__":
    main()
