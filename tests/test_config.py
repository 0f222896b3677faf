"""Settings: which source wins, and what is said about settings that cannot work."""

import json
from dataclasses import fields

import pytest

from xirang.config import Config, InputSettings, ModelSettings, load_config, options_of
from xirang.errors import InvalidSetting


def config_of(text="", tmp_path=None, **sources):
    file = None
    if tmp_path is not None:
        file = tmp_path / "xirang.toml"
        file.write_text(text)
    return load_config(file=file, **({"environment": {}} | sources))


def test_without_sources_the_defaults_hold():
    assert config_of() == Config()
    assert config_of().settings_of("any") == ModelSettings()


def test_later_sources_win(tmp_path):
    text = "http_port = 1\nqueue = 1\nbudget_ms = 1000.5\nhost = '0.0.0.0'"
    environment = {"XIRANG_HTTP_PORT": "2", "XIRANG_QUEUE": "2", "XIRANG_HOST": "::1", "PATH": "x"}
    config = config_of(text, tmp_path, environment=environment, options={"http_port": "3"})
    assert config.http_port == 3
    assert config.model.queue == 2
    assert config.host == "::1"
    assert config.model.budget_ms == 1000.5


def test_the_processes_own_environment_is_read(monkeypatch):
    monkeypatch.setenv("XIRANG_BATCHING", "off")
    assert load_config().model.batching == "off"


@pytest.mark.parametrize("option", options_of(), ids=lambda option: option.name)
def test_every_option_can_come_from_every_source(option, tmp_path):
    value = option.default
    written = json.dumps(value)
    value = ",".join(map(str, value)) if isinstance(value, tuple) else str(value).lower()
    name, variable = option.name, f"XIRANG_{option.name.upper()}"
    assert config_of(f"{name} = {written}", tmp_path) == Config()
    assert config_of(environment={variable: value}) == Config()
    assert config_of(options={name: value}) == Config()


def test_names_are_unique_and_helped():
    names = [option.name for option in options_of()]
    assert len(names) == len(set(names))
    assert all(option.help for option in options_of())
    own = {f.name for f in fields(ModelSettings) if "help" in f.metadata}
    assert own < set(names)


def test_a_models_own_table_builds_on_what_holds_for_all(tmp_path):
    text = (
        "queue = 7\nmax_batch_size = 9\n[models.small]\nqueue = 8\n[models.'with.dot']\nthreads = 2"
    )
    config = config_of(text, tmp_path, environment={"XIRANG_MAX_BATCH_SIZE": "10"})
    small, dotted = config.settings_of("small"), config.settings_of("with.dot")
    assert (small.queue, small.max_batch_size, small.threads) == (8, 10, 1)
    assert (dotted.queue, dotted.threads) == (7, 2)
    assert config.settings_of("another").queue == 7


WRONG = {
    "a share of more than all": ("trace_ratio = 1.5", "trace_ratio is 1.5; expected 0…1"),
    "less than nobody": ("log_requests = -0.1", "log_requests is -0.1; expected 0…1"),
    "unknown name": ("http_prot = 1", r"unknown \['http_prot'\]; known are .*http_port"),
    "unknown name of a model": ("[models.m]\nport = 1", r"models\.m: unknown \['port'\]"),
    "a servers setting for a model": (
        "[models.m]\nhttp_port = 1",
        r"models\.m: unknown \['http_port'\]",
    ),
    "a models setting that is no table": ("[models]\nm = 3", r"models\.m is 3; expected a table"),
    "models that are no tables": ("models = 3", r"models is 3; expected tables"),
    "no TOML": ("http_port = ", r"xirang\.toml is not TOML"),
    "text for a number": ("http_port = 'many'", "settings: Expected `int`"),
    "a list for a number": ("queue = [1]", "settings: Expected `int`"),
    "a fraction for a count": ("queue = 1.5", "settings: Expected `int`"),
    "a word that is none of them": ("batching = 'best'", "settings: Invalid enum value 'best'"),
    "port": ("http_port = 65536", r"http_port is 65536; expected 0…65535"),
    "negative port": ("http_port = -1", r"http_port is -1"),
    "body": ("body_mib_max = 0", "body_mib_max is 0; expected 1…4096"),
    "memory": ("memory_mib_max = 8", "memory_mib_max is 8, .* expected room for at least one"),
    "connections": ("connections_max = 0", "connections_max is 0; expected 1…"),
    "patience": ("client_timeout_s = 0", r"client_timeout_s is 0\.0; expected more than 0"),
    "grace": ("grace_s = -1", r"grace_s is -1\.0; expected at least 0"),
    "endless grace": ("grace_s = inf", "grace_s is inf; expected at least 0"),
    "a certificate without its key": ("tls_certificate = 'x'", "expected tls_certificate and"),
    "a key without its certificate": ("tls_key = 'x'", "expected tls_certificate and tls_key"),
    "exit timeout": ("exit_timeout_s = 0", r"exit_timeout_s is 0\.0; expected more than 0"),
    "endless exit": ("exit_timeout_s = inf", "exit_timeout_s is inf"),
    "budget": ("budget_ms = 0", r"budget_ms is 0\.0; expected more than 0"),
    "budget nan": ("budget_ms = nan", "budget_ms is nan; expected more than 0"),
    "budget inf": ("budget_ms = inf", "budget_ms is inf; expected more than 0"),
    "window nan": ("window_ms = nan", "window_ms is nan; expected at least 0"),
    "window beyond budget": ("window_ms = 9\nbudget_ms = 9", r"expected a window shorter"),
    "efficiency": ("efficiency = 1.1", r"efficiency is 1\.1; expected 0…1"),
    "negative efficiency": ("efficiency = -0.1", r"efficiency is -0\.1; expected at least 0"),
    "batch": ("max_batch_size = 0", "max_batch_size is 0; expected at least 1"),
    "lengths that fall": (
        "lengths = [64, 16]",
        r"lengths is \[64, 16\]; expected sizes .*ascending",
    ),
    "a batch of none": ("batch_sizes = [0, 8]", r"batch_sizes is \[0, 8\]; expected sizes"),
    "a word among sizes": ("batch_sizes = '1,many'", "settings: Expected `int`"),
    "queue": ("queue = 0", "queue is 0; expected at least 1"),
    "threads": ("threads = 0", "threads is 0; expected at least 1"),
    "device": ("device = 'gpu'", "device is 'gpu'; expected auto, cpu, cuda or cuda:N"),
    "instances": ("instances = -1", "instances is -1; expected at least 0"),
    "a models value": ("[models.m]\nqueue = 0", r"models\.m\.queue is 0; expected at least 1"),
}


@pytest.mark.parametrize("case", WRONG)
def test_settings_that_cannot_work_are_named_with_what_was_expected(case, tmp_path):
    text, pattern = WRONG[case]
    with pytest.raises(InvalidSetting, match=pattern):
        config_of(text, tmp_path)


def test_sizes_are_lists_in_toml_and_commas_elsewhere(tmp_path):
    assert config_of("lengths = [16, 64]", tmp_path).model.lengths == (16, 64)
    environment = {"XIRANG_LENGTHS": "16,64, 256", "XIRANG_CROP": "true"}
    model = config_of(environment=environment, options={"batch_sizes": "8"}).model
    assert (model.lengths, model.batch_sizes, model.crop) == ((16, 64, 256), (8,), True)


def test_a_wrong_variable_and_a_wrong_option_are_refused_too():
    with pytest.raises(InvalidSetting, match="Expected `int`"):
        config_of(environment={"XIRANG_QUEUE": "many"})
    with pytest.raises(InvalidSetting, match=r"unknown \['budget'\]"):
        config_of(options={"budget": 1})


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(InvalidSetting, match=r"cannot read .*none\.toml: No such file"):
        load_config(file=tmp_path / "none.toml")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidSetting, match=r"binary\.toml is not TOML"):
        load_config(file=tmp_path / "binary.toml")


def test_inputs_are_told_in_tables_of_their_own(tmp_path):
    file = tmp_path / "x.toml"
    file.write_text("queue = 3\n[models.m]\nthreads = 2\n[models.m.inputs.x]\nsizes = [0, 48]\n")
    settings = load_config(file=file, environment={}).settings_of("m")
    assert (settings.queue, settings.threads) == (3, 2)
    assert settings.inputs["x"] == InputSettings(sizes=(0, 48))


@pytest.mark.parametrize("told", ["inputs = 3", "inputs.x = 3", "inputs.x.colour = 1"])
def test_inputs_that_are_not_understood_are_refused(told, tmp_path):
    file = tmp_path / "x.toml"
    file.write_text(f"[models.m]\n{told}\n")
    with pytest.raises(InvalidSetting, match=r"models\.m\.inputs"):
        load_config(file=file, environment={})


def test_a_models_memory_is_promised_within_its_limit():
    told = {"memory_guarantee_mib": "8", "memory_limit_mib": "7"}
    with pytest.raises(InvalidSetting, match="memory_limit_mib is 7; expected no less"):
        config_of(options=told)
    assert config_of(options=told | {"memory_limit_mib": "0"}).model.memory_guarantee_mib == 8
    with pytest.raises(InvalidSetting, match="memory_keep_mib is -1"):
        config_of(options={"memory_keep_mib": "-1"})


def test_without_a_pool_models_allocate_in_the_runtimes_own_way():
    assert load_config(environment={}).model.memory_native
    assert not load_config(environment={}, options={"memory_pool_mib": -1}).model.memory_native
    wanted = {"memory_pool_mib": -1, "memory_native": True}
    assert load_config(environment={}, options=wanted).model.memory_native
