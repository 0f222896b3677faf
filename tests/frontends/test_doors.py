"""Ports, certificates and keys: what cannot work is said before anything is served."""

import socket
import subprocess

import pytest

from xirang.config import Config
from xirang.errors import InvalidSetting
from xirang.frontends.doors import Doors, listen


def certificate(folder, name="door", *options):
    """A self-signed certificate and its key, fresh from openssl."""
    files = folder / f"{name}.pem", folder / f"{name}.key"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    command += ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "1"]
    command += ["-out", str(files[0]), "-keyout", str(files[1])]
    subprocess.run([*command, *(options or ("-nodes",))], check=True, capture_output=True)
    return files


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def test_a_port_is_taken_from_the_first_moment():
    with listen("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(InvalidSetting, match=f"cannot listen on 127.0.0.1:{port}"):
            listen("127.0.0.1", port)


def test_an_address_that_is_not_ours_is_refused():
    with pytest.raises(InvalidSetting, match=r"cannot listen on 192\.0\.2\.1:0"):
        listen("192.0.2.1", 0)


@pytest.mark.parametrize("other", ["admin_port", "metrics_port"])
def test_if_one_port_cannot_be_had_the_other_is_let_go(other):
    port = free_port()
    with (
        listen("127.0.0.1", 0) as taken,
        pytest.raises(InvalidSetting, match="Address already in use"),
    ):
        Doors(Config(http_port=port, **{other: taken.getsockname()[1]}))
    listen("127.0.0.1", port).close()


def test_the_address_says_whether_it_is_encrypted(tmp_path):
    with Doors(Config(http_port=0)) as doors:
        assert doors.url.startswith("http://127.0.0.1:")
    chain, key = map(str, certificate(tmp_path))
    with Doors(Config(http_port=0, tls_certificate=chain, tls_key=key)) as doors:
        assert doors.url.startswith("https://127.0.0.1:")


def test_files_for_tls_that_cannot_be_used_are_refused_and_said_why(tmp_path):
    chain, key = certificate(tmp_path)
    _, foreign = certificate(tmp_path, "other")
    _, locked = certificate(tmp_path, "locked", "-passout", "pass:secret")
    garbage = tmp_path / "garbage.pem"
    garbage.write_bytes(b"-----BEGIN CERTIFICATE-----\nbm9uZQ==\n-----END CERTIFICATE-----\n")
    missing = tmp_path / "missing.pem"
    for pair, reason in (
        ((missing, key), f"cannot read {missing}: No such file or directory"),
        ((chain, missing), f"cannot read {missing}: No such file or directory"),
        ((tmp_path, key), f"cannot read {tmp_path}: Is a directory"),
        ((garbage, key), f"{garbage} and {key} are no certificate and its key"),
        ((chain, garbage), "are no certificate and its key"),
        ((chain, foreign), "KEY_VALUES_MISMATCH"),
        ((chain, locked), "unencrypted"),
    ):
        config = Config(http_port=0, tls_certificate=str(pair[0]), tls_key=str(pair[1]))
        with pytest.raises(InvalidSetting) as refused:
            Doors(config)
        assert reason in str(refused.value)


def test_a_file_of_keys_that_cannot_be_read_is_refused(tmp_path):
    with pytest.raises(InvalidSetting, match="cannot read"):
        Doors(Config(http_port=0, keys=str(tmp_path / "none")))
