"""The command line: what it says, and with which status it ends."""

import pytest

from xirang import cli
from xirang.config import options_of
from xirang.errors import InvalidSetting, NotReady
from xirang.frontends.keys import load_keys


@pytest.fixture
def served(monkeypatch):
    """What `serve` would have been called with."""
    calls = []

    def serve(paths, config, *, on_ready):
        calls.append((paths, config))
        on_ready("xirang serves m on http://127.0.0.1:1")
        return 0

    monkeypatch.setattr(cli, "serve", serve)
    return calls


def test_serve_takes_paths_and_options(served, capsys):
    assert cli.main(["serve", "a.onnx", "b=m:f", "--http-port", "0", "--batching", "off"]) == 0
    (paths, config), *_ = served
    assert paths == ["a.onnx", "b=m:f"]
    assert (config.http_port, config.model.batching) == (0, "off")
    assert capsys.readouterr().out == "xirang serves m on http://127.0.0.1:1\n"


def test_options_win_over_the_environment_and_that_over_the_file(served, tmp_path, monkeypatch):
    (tmp_path / "x.toml").write_text("queue = 1\nthreads = 2\nhttp_port = 3\n[models.m]\nqueue = 9")
    monkeypatch.setenv("XIRANG_THREADS", "4")
    monkeypatch.setenv("XIRANG_HTTP_PORT", "5")
    cli.main(["serve", "m", "--config", str(tmp_path / "x.toml"), "--http-port", "6"])
    ((_, config),) = served
    assert (config.model.queue, config.model.threads, config.http_port) == (1, 4, 6)
    assert config.settings_of("m").queue == 9


@pytest.mark.parametrize("command", ["serve", "check", "fetch", "demo", "load", "simulate"])
def test_every_command_explains_itself(command, capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main([command, "--help"])
    assert ended.value.code == 0
    assert f"xirang {command}" in capsys.readouterr().out


def test_the_help_of_serve_has_every_option_with_its_default(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit):
        cli.main(["serve", "--help"])
    text = capsys.readouterr().out
    for option in options_of():
        assert "--" + option.name.replace("_", "-") in text
        assert f"(default: {option.default})" in text


@pytest.mark.parametrize(
    "arguments", [[], ["bake"], ["serve"], ["serve", "m", "--no-such-option", "1"]], ids=str
)
def test_a_command_that_is_not_understood_ends_with_2(arguments, capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    assert ended.value.code == 2
    assert "usage: xirang" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "status"),
    [(InvalidSetting("no"), 2), (NotReady("no"), 1), (KeyboardInterrupt(), 130)],
)
def test_what_goes_wrong_is_told_in_one_line(error, status, monkeypatch, capsys):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr(cli, "serve", fail)
    assert cli.main(["serve", "m"]) == status
    said = capsys.readouterr().err
    assert said == ("" if status == 130 else "xirang: no\n")


@pytest.mark.parametrize(
    "arguments",
    [
        ["serve", "no/such/path"],
        ["serve", "no_such_module:f", "--http-port", "0"],
        ["serve", "m", "--http-port", "99999"],
        ["serve", "m", "--queue", "many"],
        ["serve", "m", "--batching", "best"],
        ["serve", "m", "--config", "no_such.toml"],
    ],
    ids=" ".join,
)
def test_settings_that_cannot_work_end_with_2_before_anything_is_served(arguments, capsys):
    assert cli.main(arguments) == 2
    assert capsys.readouterr().err.startswith("xirang: ")


def test_fetch_says_where_the_model_lies(tmp_path, capsys):
    assert cli.main(["fetch", "--to", str(tmp_path)]) == 0
    home = tmp_path / "all-MiniLM-L6-v2"
    assert capsys.readouterr().out == f"{home}\n"
    assert (home / "tokenizer.json").is_file()


def test_the_version_is_told(capsys):
    with pytest.raises(SystemExit):
        cli.main(["--version"])
    assert capsys.readouterr().out.strip()


def test_a_key_is_made_for_its_holder_and_its_entry_for_the_file(capsys, tmp_path):
    assert cli.main(["key", "shop"]) == 0
    told = capsys.readouterr()
    (tmp_path / "keys.toml").write_text(told.out)
    keys = load_keys(tmp_path / "keys.toml")
    assert keys.of({b"x-api-key": told.err.strip().encode()}).name == "shop"
    assert cli.main(["key", "no name"]) == 2
    assert "expected letters, digits, - and _" in capsys.readouterr().err
