"""Reads pages and captchas: what stands before and after the models, as a client would write it."""

import json

import numpy as np

from tests.models.inputs import MODELS, channels_first, resized

SURE, SURE_OF_LINE = 0.3, 0.6
"""A pixel is text above the first; a line is one if its pixels are above the second on average."""

GROWTH = 1.6
"""The detector marks a line's core; it grows by area x this / girth, in each direction."""


def detection_input(page: np.ndarray) -> np.ndarray:
    """A page at twice its size, in a multiple of 32."""
    height, width = (-(-2 * size // 32) * 32 for size in page.shape[:2])
    return channels_first(resized(page, height=height, width=width))


def lines_of(marked: np.ndarray, page: np.ndarray) -> list[np.ndarray]:
    """The page's lines as the recogniser takes them, from top to bottom."""
    scale = np.array([page.shape[0] / marked.shape[0], page.shape[1] / marked.shape[1]])
    patches = [patch * scale for patch in _patches(marked)]
    return [
        _levelled(page, *patch.T) for patch in sorted(patches, key=lambda each: each[:, 0].mean())
    ]


def _patches(marked: np.ndarray) -> list[np.ndarray]:
    """Row and column of the pixels of each patch that looks like text."""
    left_over = {(int(y), int(x)) for y, x in np.argwhere(marked > SURE)}
    patches = []
    while left_over:
        patch, border = [], [left_over.pop()]
        while border:
            y, x = border.pop()
            patch.append((y, x))
            near = {(y + 1, x), (y - 1, x), (y, x + 1), (y, x - 1)} & left_over
            left_over -= near
            border += near
        pixels = np.array(patch)
        if len(pixels) > 100 and marked[tuple(pixels.T)].mean() > SURE_OF_LINE:
            patches.append(pixels)
    return patches


def _levelled(page: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """The grown box around a patch, its slope taken out, 48 pixels high."""
    from PIL import Image

    slope, _ = np.polyfit(columns, rows, 1)
    left, right = columns.min(), columns.max()
    level = rows - slope * (columns - left)
    top, bottom = level.min(), level.max()
    height, width = bottom - top, right - left
    growth = height * width * GROWTH / (2 * (height + width))
    top, left, height, width = top - growth, left - growth, height + 2 * growth, width + 2 * growth
    step = height / 48
    size = (round(width / step), 48)
    # From a pixel of the line to one of the page: (a·x + b·y + c, d·x + e·y + f).
    places = (step, 0, left, slope * step, step, top - slope * growth)
    line = Image.fromarray(page).transform(
        size, Image.Transform.AFFINE, places, Image.Resampling.BICUBIC, fillcolor=(255, 255, 255)
    )
    return channels_first(np.asarray(line))


def direction_input(line: np.ndarray) -> np.ndarray:
    """The line's beginning, as much as the direction model sees: [1, 3, 48, 192]."""
    part = line[:, :, :, :192]
    return np.pad(part, [(0, 0), (0, 0), (0, 0), (0, 192 - part.shape[3])])


def recogniser_characters() -> list[str]:
    """Blank, the characters that the model's file names, and a space."""
    import onnxruntime as ort

    session = ort.InferenceSession(str(MODELS / "ocr-recognition" / "model.onnx"))
    named = session.get_modelmeta().custom_metadata_map["character"].splitlines()
    return ["", *named, " "]


def captcha_characters() -> list[str]:
    """Those of ddddocr's model."""
    return json.loads((MODELS / "ddddocr" / "characters.json").read_text())


def spelled(steps: np.ndarray, characters: list[str]) -> str:
    """The likeliest character of each step, repetitions and blanks (number 0) left out.

    Graves and others, "Connectionist temporal classification", ICML 2006: the greedy path.
    """
    best = steps.argmax(axis=1)
    is_new = np.concatenate([[True], best[1:] != best[:-1]])
    return "".join(characters[index] for index in best[is_new & (best > 0)])
