"""Who may ask for what: API keys, kept as hashes in a file.

    [keys.shop]
    sha256 = "9f86d081884c7d65…"
    models = ["all-MiniLM-L6-v2"]    # names; all without it
    priority = 2                     # the highest it may ask for, 1 by default
    fast = false                     # whether it may take the fast lane
    rate = 200                       # requests a second
    share = 0.5                      # of the device at once
    admin = false                    # whether it may load, unload and set

`xirang key NAME` makes a key and prints its entry. A key is 256 random bits, so one hash without
a salt is enough: there is nothing to guess.
"""

import hashlib
import hmac
import re
import secrets
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zlib import crc32

import msgspec

from xirang.errors import Forbidden, InvalidSetting, Unauthorized

HEX_LENGTH = 64


class Grant(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the holder of a key may do.

    Attributes:
        sha256: Hash of the key, in hexadecimal digits.
        models: Names; None for all.
        priority: The highest it may ask for; 1 is the highest of all.
        fast: Whether it may take the fast lane.
        rate: Requests a second; None for any.
        share: Of the device at once.
        admin: Whether it may load, unload and change settings.
        name: In the file.
    """

    sha256: str
    models: frozenset[str] | None = None
    priority: int = 1
    fast: bool = False
    rate: float | None = None
    share: float = 1.0
    admin: bool = False
    name: str = ""

    @property
    def client(self) -> int:
        """A number that stands for the holder."""
        return crc32(self.name.encode())

    def check_model(self, model: str) -> None:
        """Refuse a model that the key is not for.

        Raises:
            Forbidden: Which key and which model.
        """
        if self.models is not None and model not in self.models:
            raise Forbidden(f"key '{self.name}' is not for model '{model}'")

    def clamp(self, priority: int) -> int:
        """The priority that a request of this key gets: a client cannot promote itself.

        Args:
            priority: As asked for.
        """
        return max(priority, self.priority)


class Keys:
    """All keys of a server."""

    def __init__(self, grants: Mapping[str, Grant]) -> None:
        self._grants = [(bytes.fromhex(grant.sha256), grant) for grant in grants.values()]

    def __len__(self) -> int:
        return len(self._grants)

    @property
    def grants(self) -> list[Grant]:
        """What each of them allows."""
        return [grant for _, grant in self._grants]

    def of(self, headers: Mapping[bytes, bytes]) -> Grant:
        """What the request's key grants.

        Args:
            headers: Names in lower case. The key stands in `Authorization: Bearer …` or, as
                other servers have it, in `X-API-Key`.

        Raises:
            Unauthorized: There is no key, or an unknown one.
        """
        key = presented(headers)
        if key is None:
            raise Unauthorized("expected an API key: Authorization: Bearer …")
        digest = hashlib.sha256(key).digest()
        found = None
        for known, grant in self._grants:  # all are compared: the time tells nothing
            if hmac.compare_digest(known, digest):
                found = grant
        if found is None:
            raise Unauthorized("the API key is not known here")
        return found

    def admin(self, headers: Mapping[bytes, bytes]) -> Grant:
        """The grant of a key that may manage the server.

        Raises:
            Unauthorized: There is no key, or an unknown one.
            Forbidden: The key is for requests only.
        """
        grant = self.of(headers)
        if not grant.admin:
            raise Forbidden(f"key '{grant.name}' may not manage the server")
        return grant


def presented(headers: Mapping[bytes, bytes]) -> bytes | None:
    """The key that a request brings."""
    authorization = headers.get(b"authorization")
    if authorization is not None:
        scheme, _, key = authorization.partition(b" ")
        if scheme.lower() == b"bearer" and key.strip():
            return key.strip()
    return headers.get(b"x-api-key")


def load_keys(file: Path) -> Keys:
    """Read a file of keys.

    Raises:
        InvalidSetting: It cannot be read, or an entry is wrong, and which.
    """
    try:
        table = tomllib.loads(file.read_text())
    except OSError as error:
        raise InvalidSetting(f"cannot read {file}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidSetting(f"{file} is not TOML: {error}") from error
    entries = table.pop("keys", None)
    if table or not isinstance(entries, dict) or not entries:
        raise InvalidSetting(f"{file}: expected tables [keys.NAME] and nothing else")
    return Keys({name: _grant(file, name, entry) for name, entry in entries.items()})


def new_key(name: str) -> tuple[str, str]:
    """A fresh key, and the entry that lets it in.

    Raises:
        InvalidSetting: The name cannot stand in a table's heading.
    """
    if not re.fullmatch(r"[A-Za-z0-9_-]+", name):
        raise InvalidSetting(f"the name is {name!r}; expected letters, digits, - and _")
    key = secrets.token_urlsafe(32)
    digest = hashlib.sha256(key.encode()).hexdigest()
    return key, f'[keys.{name}]\nsha256 = "{digest}"\n'


def _grant(file: Path, name: str, entry: Any) -> Grant:
    try:
        grant = msgspec.convert(entry, Grant)
    except msgspec.ValidationError as error:
        raise InvalidSetting(f"{file}: keys.{name}: {error}") from error
    digits = set("0123456789abcdef")
    if len(grant.sha256) != HEX_LENGTH or set(grant.sha256.lower()) - digits:
        raise InvalidSetting(f"{file}: keys.{name}.sha256: expected 64 hexadecimal digits")
    if grant.priority < 1 or not 0 < grant.share <= 1 or (grant.rate or 1) <= 0:
        raise InvalidSetting(
            f"{file}: keys.{name}: expected a priority of at least 1, a rate above 0 "
            "and a share within 0…1"
        )
    return msgspec.structs.replace(grant, name=name)
