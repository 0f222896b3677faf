"""Triton's command lines, read as ours."""

import pytest

from xirang.cli import main
from xirang.config import load_config, options_of
from xirang.errors import InvalidSetting
from xirang.triton_flags import WITHOUT_EFFECT, translated


def settings(*arguments):
    """What our own command line would make of it."""
    words, _ = translated(arguments)
    given = dict(w.removeprefix("--").split("=", 1) for w in words if w.startswith("--"))
    options = {name.replace("-", "_"): value for name, value in given.items()}
    assert options.keys() <= {o.name for o in options_of()}
    return load_config(environment={}, options=options)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--model-repository=/a", "--model-repository=/b"], {"model_repository": ("/a", "/b")}),
        (["--model-store", "/a"], {"model_repository": ("/a",)}),
        (["--http-port", "81", "--grpc-port=82"], {"http_port": 81, "grpc_port": 82}),
        (["--metrics-port=83"], {"metrics_port": 83}),
        (["--http-address", "0.0.0.0"], {"host": "0.0.0.0"}),
        (
            ["--model-control-mode=explicit", "--load-model=a", "--load-model", "b"],
            {"model_control_mode": "explicit", "load_model": ("a", "b")},
        ),
        (["--repository-poll-secs=3"], {"repository_poll_s": 3.0}),
        (["--exit-timeout-secs=7"], {"exit_timeout_s": 7.0}),
        (["--strict-readiness=false"], {"strict_readiness": False}),
        (["--strict-readiness", "1"], {"strict_readiness": True}),
        (["--log-verbose=1"], {"log_level": "debug"}),
        (["--log-verbose", "0"], {"log_level": "info"}),
        (["--log-info=false"], {"log_level": "warning"}),
        (["--log-format=ISO8601"], {"log_format": "text"}),
        (["--log-format=json"], {"log_format": "json"}),
        (["--allow-grpc=false"], {"grpc_port": -1}),
        (["--allow-grpc=true", "--grpc-port=5"], {"grpc_port": 5}),
        (["--disable-auto-complete-config", "--http-port=1"], {"auto_complete_config": False}),
        (["--strict-model-config=true"], {"auto_complete_config": False}),
        (["--allow-client-shm=true"], {"allow_shared_memory": True}),
        (["--http-max-input-size=134217729"], {"body_mib_max": 129, "memory_mib_max": 1024}),
        (["--http-max-input-size=2147483648"], {"body_mib_max": 2048, "memory_mib_max": 2048}),
        (["--cache-config=local,size=1048576"], {"cache_mib": 1}),
        (["--trace-config=rate=100"], {"trace_ratio": 0.01}),
        (
            ["--trace-config", "opentelemetry,url=http://c:4318/v1/traces"],
            {"otlp_endpoint": "http://c:4318/v1/traces"},
        ),
        (
            ["--grpc-infer-response-compression-level=high"],
            {"grpc_compression": "high"},
        ),
        (
            ["--http-restricted-api=health,metadata:k=v", "--http-restricted-api=inference:l=w"],
            {"http_restricted_api": ("health", "metadata:k=v", "inference:l=w")},
        ),
    ],
)
def test_a_flag_is_a_setting(arguments, expected):
    config = settings(*arguments)
    assert {name: getattr(config, name) for name in expected} == expected


def test_paths_and_our_own_options_stay():
    words, notes = translated(["m.onnx", "--config", "a.toml", "n=b.onnx", "--threads=2", "--help"])
    assert words == ["m.onnx", "--config", "a.toml", "n=b.onnx", "--help", "--threads=2"]
    assert not notes


@pytest.mark.parametrize("flag", sorted(WITHOUT_EFFECT))
def test_what_means_nothing_is_said_in_a_line(flag):
    words, notes = translated([f"--{flag}=1", f"--{flag}", "x,y=2"])
    assert words == []
    assert notes == [f"--{flag} is without effect: {WITHOUT_EFFECT[flag]}"] * 2


@pytest.mark.parametrize(
    "argument", ["--allow-http=false", "--allow-metrics=0", "--cache-config=redis,host=x"]
)
def test_what_is_not_done_is_said(argument):
    (note,) = translated([argument])[1]
    assert "is without effect" in note


def test_an_unknown_flag_is_refused_with_the_nearest(capsys):
    with pytest.raises(InvalidSetting, match="--http-thread-cont; the nearest is --http-thread-c"):
        translated(["--http-thread-cont=2"])
    with pytest.raises(InvalidSetting, match=r"unknown option --zzzzzzzzzzz$"):
        translated(["--zzzzzzzzzzz"])
    with pytest.raises(SystemExit):
        main(["serve", "--http-prot=1", "m.onnx"])
    assert "unknown option --http-prot; the nearest is --http-port" in capsys.readouterr().err


@pytest.mark.parametrize(
    "argument",
    [
        "--log-verbose=x",
        "--allow-grpc=maybe",
        "--http-max-input-size=",
        "--cache-config=local,size=-1",
    ],
)
def test_a_wrong_value_is_refused(argument):
    with pytest.raises(InvalidSetting, match="expected"):
        translated([argument])


@pytest.mark.parametrize("flag", ["--http-port", "--config", "--log-verbose", "--id"])
def test_a_flag_without_its_value_is_refused(flag):
    with pytest.raises(InvalidSetting, match=f"expected a value behind {flag}"):
        translated(["m.onnx", flag])


def test_no_flag_of_ours_is_called_without_effect():
    own = {option.name.replace("_", "-") for option in options_of()}
    assert not own & WITHOUT_EFFECT.keys()
