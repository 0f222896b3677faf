"""Real inputs, as one request's arrays: texts, pictures, speech, files and digits."""

import io
import random
import wave
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from pydoc_data.topics import topics

import numpy as np

ROOT = Path(__file__).parents[2]
MODELS = ROOT / "models"
DATA = ROOT / "tests" / "data"

Inputs = dict[str, np.ndarray]

RATE_HZ, STEP, CONTEXT = 16_000, 512, 64
"""Of the speech detector: samples a second, samples a step, samples it sees again."""


LINES = ((48, 66), (67, 85), (84, 102), (102, 119), (118, 135))
"""First and last row of pixels of the paragraph on page.png."""


# ---------------------------------------------------------------------- texts


@cache
def texts() -> tuple[str, ...]:
    """Paragraphs of Python's own language reference."""
    paragraphs = (part for topic in sorted(topics) for part in topics[topic].split("\n\n"))
    return tuple(text.strip() for text in paragraphs if len(text.split()) > 2)


@cache
def tokenizer():
    from tokenizers import Tokenizer

    return Tokenizer.from_file(str(MODELS / "all-MiniLM-L6-v2" / "tokenizer.json"))


def tokens(count: int, *, names: Sequence[str], length_max: int = 192) -> Iterator[Inputs]:
    """Token ids under the first name, a mask under the second, zeros under a third."""
    chosen = random.Random(1).sample(texts(), count)
    for text in chosen:
        ids = np.array([tokenizer().encode(text).ids[:length_max]], np.int64)
        columns = (ids, np.ones_like(ids), np.zeros_like(ids))
        yield dict(zip(names, columns, strict=False))


def letters(count: int) -> Iterator[Inputs]:
    """The texts' letters as numbers below 64."""
    for text in random.Random(2).sample(texts(), count):
        yield {"ids": np.array([[ord(letter) % 64 for letter in text[:120]]], np.int64)}


# ---------------------------------------------------------------------- pictures


@cache
def picture(name: str, mode: str = "RGB") -> np.ndarray:
    """One of the pictures as [height, width] or [height, width, colours], 0 to 255."""
    from PIL import Image

    place = DATA / name if (DATA / name).exists() else MODELS / "pictures" / name
    with Image.open(place) as image:
        return np.asarray(image.convert(mode))


def resized(pixels: np.ndarray, *, height: int, width: int) -> np.ndarray:
    """The same picture in another size."""
    from PIL import Image

    return np.asarray(Image.fromarray(pixels).resize((width, height), Image.Resampling.BILINEAR))


def channels_first(pixels: np.ndarray) -> np.ndarray:
    """[height, width, 3] of 0 to 255, as [1, 3, height, width] of -1 to 1."""
    return (pixels.astype(np.float32) / 127.5 - 1).transpose(2, 0, 1)[None]


def classified(pixels: np.ndarray) -> np.ndarray:
    """The middle of a picture as EfficientNet-lite takes it: [1, 3, 224, 224]."""
    height, width = pixels.shape[:2]
    side = int(0.875 * min(height, width))
    top, left = (height - side) // 2, (width - side) // 2
    middle = resized(pixels[top : top + side, left : left + side], height=224, width=224)
    return ((middle.astype(np.float32) - 127) / 128).transpose(2, 0, 1)[None]


def crops(count: int, name: str = "image", *, rows_max: int = 1) -> Iterator[Inputs]:
    """Parts of photographs, all 224 x 224."""
    choose = random.Random(3)
    for _ in range(count):
        rows = []
        for _ in range(choose.randint(1, rows_max)):
            photograph = picture(choose.choice(("chelsea.png", "coffee.png", "rocket.jpg")))
            side = choose.randint(150, 299)
            top = choose.randint(0, photograph.shape[0] - side)
            left = choose.randint(0, photograph.shape[1] - side)
            rows.append(classified(photograph[top : top + side, left : left + side]))
        yield {name: np.concatenate(rows)}


def scenes(count: int) -> Iterator[Inputs]:
    """Parts of the scanned page and of photographs, in sizes that are multiples of 32."""
    choose = random.Random(4)
    for _ in range(count):
        pixels = picture(choose.choice(("page.png", "text.png", "chelsea.png")))
        height, width = choose.choice((64, 96, 128, 160)), choose.choice((96, 128, 192, 256, 320))
        top = choose.randint(0, pixels.shape[0] - height)
        left = choose.randint(0, pixels.shape[1] - width)
        yield {"x": channels_first(pixels[top : top + height, left : left + width])}


def line_parts(
    count: int, *, widths: Sequence[int], width_to: int | None = None
) -> Iterator[Inputs]:
    """Parts of the page's lines, 48 pixels high; every third one upside down if of one width."""
    choose, page = random.Random(5), picture("page.png")
    for number in range(count):
        top, bottom = choose.choice(LINES)
        width = choose.choice(widths)
        taken = min(page.shape[1] - 1, width * (bottom - top) // 48)
        left = choose.randint(0, page.shape[1] - taken)
        part = page[top:bottom, left : left + taken]
        pixels = channels_first(resized(part, height=48, width=width_to or width))
        if width_to and number % 3 == 0:
            pixels = pixels[:, :, ::-1, ::-1]
        yield {"x": np.ascontiguousarray(pixels)}


def written(text: str, *, seed: int) -> np.ndarray:
    """A word as a captcha shows it: turned letters, a line across, speckles; [1, 1, 64, width]."""
    from PIL import Image, ImageDraw, ImageFont

    choose, font = random.Random(seed), ImageFont.load_default(40)
    image = Image.new("L", (34 * len(text) + 20, 64), 255)
    for number, letter in enumerate(text):
        tile = Image.new("L", (44, 60), 255)
        ImageDraw.Draw(tile).text((6, 4), letter, fill=choose.randint(0, 60), font=font)
        tile = tile.rotate(choose.uniform(-12, 12), fillcolor=255)
        image.paste(tile, (8 + 34 * number, 2), tile.point(lambda value: 255 - value))
    draw = ImageDraw.Draw(image)
    end_y = choose.randint(10, 54)
    draw.line((0, choose.randint(10, 54), image.width, end_y), fill=140, width=1)
    for _ in range(60):
        draw.point((choose.randrange(image.width), choose.randrange(64)), fill=90)
    return (np.asarray(image, np.float32) / 255)[None, None]


def captchas(count: int) -> Iterator[Inputs]:
    """Words of three to seven letters and digits."""
    choose = random.Random(6)
    for number in range(count):
        letters = choose.choices("abdefhkmnrstwxy34678", k=choose.randint(3, 7))
        yield {"input1": written("".join(letters), seed=number)}


# ---------------------------------------------------------------------- speech


@cache
def speech() -> np.ndarray:
    """A spoken sentence, 16 kHz, -1 to 1."""
    with wave.open(str(DATA / "speech.wav")) as file:
        samples = np.frombuffer(file.readframes(file.getnframes()), "<i2")
    return samples.astype(np.float32) / 32768


def noise(seconds: float) -> np.ndarray:
    """Hiss without a voice."""
    samples = np.random.default_rng(7).normal(0, 0.03, int(seconds * RATE_HZ))
    return samples.astype(np.float32)


def sound_steps(sound: np.ndarray) -> Iterator[np.ndarray]:
    """[1, 576]: the end of the step before, then the step."""
    padded = np.concatenate([np.zeros(CONTEXT, np.float32), sound])
    for start in range(0, len(sound) - STEP + 1, STEP):
        yield padded[start : start + CONTEXT + STEP][None]


def listening(count: int, alone) -> Iterator[Inputs]:
    """Steps of streams at different places, each with the state that its past left."""
    rate = np.array(RATE_HZ, np.int64)
    state, made = np.zeros((2, 1, 128), np.float32), 0
    hiss = noise(speech().size / RATE_HZ + 1)[: speech().size]
    for loudness in (1.0, 0.5, 0.25, 0.1):
        for step in sound_steps(loudness * speech() + (1 - loudness) * hiss):
            inputs = {"input": step, "state": state, "sr": rate}
            yield inputs
            state = alone(inputs)["stateN"]
            made += 1
            if made == count:
                return


# ---------------------------------------------------------------------- files and digits


def file_features(content: bytes) -> np.ndarray:
    """What magika looks at: the first and last 1024 bytes without outer blanks, 256 for none."""
    row = np.full((1, 2048), 256, np.int32)
    begin, end = content[:4096].lstrip()[:1024], content[-4096:].rstrip()[-1024:]
    row[0, : len(begin)] = np.frombuffer(begin, np.uint8)
    if end:
        row[0, 2048 - len(end) :] = np.frombuffer(end, np.uint8)
    return row


def files(count: int) -> Iterator[Inputs]:
    """Files of this repository and of Python's library."""
    places = [*sorted((ROOT / "src").rglob("*.py")), *sorted((ROOT / "docs").glob("*.md"))]
    places += [*sorted(Path(io.__file__).parent.glob("*.py")), ROOT / "pyproject.toml"]
    places += [*DATA.glob("*.png"), *DATA.glob("*.wav")]
    for place in random.Random(8).choices(places, k=count):
        yield {"bytes": file_features(place.read_bytes())}


@cache
def unseen_digits() -> tuple[np.ndarray, np.ndarray]:
    """Pixels [597, 64] and labels of handwritten digits that no model was trained on."""
    with np.load(MODELS / "digits-logistic" / "unseen.npz") as stored:
        return stored["pixels"], stored["labels"]


def digits(count: int, *, width: int = 64, rows_max: int = 3) -> Iterator[Inputs]:
    """One to three digits a request, written with more or less ink."""
    choose, (pixels, _) = random.Random(9), unseen_digits()
    for _ in range(count):
        rows = choose.sample(range(len(pixels)), choose.randint(1, rows_max))
        yield {"x": pixels[rows, :width] * np.float32(choose.uniform(0.4, 1))}
