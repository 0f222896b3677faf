"""API keys: who gets in, and what they may ask for."""

import hashlib
import tomllib

import pytest

from xirang.errors import Forbidden, InvalidSetting, Unauthorized
from xirang.frontends.keys import Grant, load_keys, new_key, presented

SECRET = "not-much-of-a-secret"
DIGEST = hashlib.sha256(SECRET.encode()).hexdigest()


@pytest.fixture
def write(tmp_path):
    def write(text):
        file = tmp_path / "keys.toml"
        file.write_text(text)
        return file

    return write


@pytest.fixture
def keys(write):
    boss = hashlib.sha256(b"boss").hexdigest()
    return load_keys(
        write(
            f'[keys.shop]\nsha256 = "{DIGEST}"\nmodels = ["a"]\npriority = 2\n'
            f'[keys.boss]\nsha256 = "{boss}"\nadmin = true\n'
        )
    )


@pytest.mark.parametrize(
    ("headers", "key"),
    [
        ({b"authorization": b"Bearer abc"}, b"abc"),
        ({b"authorization": b"bearer  abc "}, b"abc"),
        ({b"x-api-key": b"abc"}, b"abc"),
        ({b"authorization": b"Bearer abc", b"x-api-key": b"other"}, b"abc"),
        ({b"authorization": b"Basic abc"}, None),
        ({b"authorization": b"Bearer "}, None),
        ({b"authorization": b""}, None),
        ({}, None),
    ],
)
def test_where_a_key_stands(headers, key):
    assert presented(headers) == key


def test_a_known_key_gets_its_grant(keys):
    grant = keys.of({b"authorization": b"Bearer " + SECRET.encode()})
    assert (grant.name, grant.models, grant.priority) == ("shop", {"a"}, 2)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {b"authorization": b"Bearer " + DIGEST.encode()},  # the hash is not the key
        {b"authorization": b"Bearer " + SECRET.encode() + b"x"},
        {b"authorization": b"Bearer \xff\x00"},
        {b"x-api-key": b""},
    ],
)
def test_whoever_has_no_known_key_stays_out(keys, headers):
    with pytest.raises(Unauthorized):
        keys.of(headers)


def test_a_key_is_for_its_models_only(keys):
    grant = keys.of({b"x-api-key": SECRET.encode()})
    grant.check_model("a")
    with pytest.raises(Forbidden, match="key 'shop' is not for model 'b'"):
        grant.check_model("b")


@pytest.mark.parametrize(("asked", "given"), [(1, 2), (2, 2), (3, 3), (9, 9)])
def test_a_client_cannot_promote_itself(keys, asked, given):
    assert keys.of({b"x-api-key": SECRET.encode()}).clamp(asked) == given


def test_only_an_admins_key_manages(keys):
    assert keys.admin({b"x-api-key": b"boss"}).name == "boss"
    with pytest.raises(Forbidden, match="may not manage"):
        keys.admin({b"x-api-key": SECRET.encode()})
    with pytest.raises(Unauthorized):
        keys.admin({})


def test_a_new_key_opens_what_its_entry_describes(write):
    key, entry = new_key("fresh")
    assert key not in entry
    keys = load_keys(write(entry))
    assert keys.of({b"x-api-key": key.encode()}).name == "fresh"
    assert tomllib.loads(entry)["keys"].keys() == {"fresh"}


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "expected tables"),
        ("x = 1", "expected tables"),
        ("keys = 3", "expected tables"),
        ("[keys.a]", "sha256"),
        ('[keys.a]\nsha256 = "12"', "64 hexadecimal digits"),
        (f'[keys.a]\nsha256 = "{"g" * 64}"', "64 hexadecimal digits"),
        (f'[keys.a]\nsha256 = "{DIGEST}"\nrate = -1', "rate above 0"),
        (f'[keys.a]\nsha256 = "{DIGEST}"\nshare = 2', "share within"),
        (f'[keys.a]\nsha256 = "{DIGEST}"\npriority = 0', "priority of at least 1"),
        (f'[keys.a]\nsha256 = "{DIGEST}"\nadmin = "yes"', "admin"),
        (f'[keys.a]\nsha256 = "{DIGEST}"\nroot = true', "root"),
        ("[keys", "not TOML"),
    ],
)
def test_a_wrong_file_is_refused_with_the_reason(write, text, word):
    with pytest.raises(InvalidSetting, match=word):
        load_keys(write(text))


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(InvalidSetting, match="cannot read"):
        load_keys(tmp_path / "absent.toml")


def test_holders_are_told_apart():
    assert Grant(DIGEST, name="a").client != Grant(DIGEST, name="b").client
