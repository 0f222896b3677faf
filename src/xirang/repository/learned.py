"""What was learned about a model file, kept for the next start: a small JSON file for each kind.

A file's knowledge is found again by the hash of its bytes, so a model that was replaced is a new
one and a model that was moved is not. Writing is atomic: a reader sees the old file or the new one.
Nothing here is needed to serve. What cannot be read is forgotten with a warning, and where nothing
can be written nothing is kept.
"""

import contextlib
import hashlib
import logging
import os
from pathlib import Path
from typing import Any

import msgspec

log = logging.getLogger(__name__)

FORMAT = 1
BESIDE, OFF = "beside", "off"
BYTES_MAX = 1 << 20
"""No file of ours is nearly as large: a larger one is somebody else's."""


class _Kept(msgspec.Struct, frozen=True):
    """One file as it lies on disk."""

    format: int
    digest: str
    kind: str
    value: dict[str, Any]


class Learned:
    """The knowledge of one model file.

    `read("verdict")` gives back, at some later start, what `write("verdict", …)` was given.
    """

    def __init__(self, digest: str, folder: Path | None) -> None:
        """Name the place.

        Args:
            digest: Of the model file.
            folder: Where the files are; None keeps nothing.
        """
        self.digest = digest
        self.folder = folder

    @classmethod
    def of(cls, file: Path | None, *, where: str = BESIDE) -> "Learned":
        """What is known about a model file.

        Args:
            file: The model; None for what is no file, of which nothing is kept.
            where: `beside` the file, in a folder `.xirang`; `off`; or the path of a folder.
        """
        if file is None or where == OFF:
            return cls("", None)
        # Not resolved: a model that is a link into a package is at home where the link is.
        folder = file.parent / ".xirang" if where == BESIDE else Path(where).expanduser()
        return cls(digest_of(file), folder)

    def path(self, kind: str) -> Path | None:
        """Where one kind of knowledge lies, whether or not it is there."""
        return None if self.folder is None else self.folder / f"{self.digest[:16]}-{kind}.json"

    def read(self, kind: str) -> dict[str, Any] | None:
        """What was written last; None if nothing was, or nothing that can be used."""
        path = self.path(kind)
        if path is None:
            return None
        try:
            with path.open("rb") as opened:
                kept = msgspec.json.decode(opened.read(BYTES_MAX), type=_Kept)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
            log.warning("%s is ignored: %s", path, error)
            return None
        if (kept.format, kept.digest, kept.kind) != (FORMAT, self.digest, kind):
            log.warning("%s is ignored: it is of another model file or another version", path)
            return None
        return kept.value

    def write(self, kind: str, value: dict[str, Any]) -> bool:
        """Keep this for the next start.

        Returns:
            False if it could not be written; that is said once, and not tried again.
        """
        path = self.path(kind)
        if path is None:
            return False
        kept = msgspec.json.encode(_Kept(FORMAT, self.digest, kind, value))
        draft = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            draft.write_bytes(kept)
            draft.replace(path)
        except OSError as error:
            log.info("nothing learned about models is kept in %s: %s", path.parent, error.strerror)
            self.folder = None
            with contextlib.suppress(OSError):
                draft.unlink()
            return False
        return True


def digest_of(file: Path) -> str:
    """Sha-256 of a model file; of weights that lie beside it, the names, sizes and dates count.

    Raises:
        OSError: It cannot be read.
    """
    with file.open("rb") as opened:
        digest = hashlib.file_digest(opened, "sha256")
    for beside in sorted(file.parent.glob(f"{file.name}?*")):
        about = beside.stat()
        digest.update(f"{beside.name}:{about.st_size}:{about.st_mtime_ns}".encode())
    return digest.hexdigest()
