"""What model files import as triton_python_backend_utils, and where it is to be found."""

import importlib.util
import json
import logging

import numpy as np
import pytest

from xirang.backends.isolated.messages import Load
from xirang.backends.requests import CODES, About, Asked, code_of, error_of
from xirang.backends.triton_python import module as pb_utils
from xirang.backends.triton_python.exchange import InferenceResponseSender, result_of
from xirang.backends.triton_python.executable import ModelFile
from xirang.backends.triton_python.tensors import sent
from xirang.core.signature import TensorSpec
from xirang.errors import InvalidRequest, InvalidSetting, ModelFailed, XirangError


class NobodyElse:
    """A server on which no other model is."""

    is_in_run = True

    def __init__(self):
        self.told = []

    def call(self, inner):
        return error_of(CODES.index("NOT_FOUND"), f"no model '{inner.model}'")

    def tell(self, index, part):
        self.told.append((index, part))


def tensor(*values, name="x", kind=np.float32):
    return pb_utils.Tensor(name, np.array(values, kind))


def model_file(tmp_path, body, server=None, **config):
    file = tmp_path / "m" / "1" / "model.py"
    file.parent.mkdir(parents=True)
    file.write_text(
        "import numpy as np\nimport triton_python_backend_utils as pb_utils\n"
        "class TritonPythonModel:\n" + body
    )
    told = {
        "name": "m",
        "input": [{"name": "x", "data_type": "TYPE_FP32", "dims": [-1]}],
        "output": [
            {"name": "y", "data_type": "TYPE_STRING", "dims": [1], "reshape": {"shape": []}}
        ],
    }
    options = {
        "model_config": json.dumps(told | config),
        "can_complete": "yes",
        "group": "m_0",
        "model_repository": str(tmp_path / "m"),
        "model_version": "1",
    }
    load = Load("triton python", str(file), "m", options=options, instance=3)
    return ModelFile(load, server or NobodyElse())


@pytest.fixture(autouse=True)
def cleared(monkeypatch):
    """The worker that a model file is loaded in is this process, for once."""
    import sys

    kept, path = set(sys.modules), list(sys.path)
    yield
    for name in set(sys.modules) - kept:
        del sys.modules[name]
    sys.path[:] = path


def asked(*values, wanted=("y",), **about):
    return Asked({"x": np.array([values], np.float32)}, wanted, About(**about))


def test_it_is_found_in_workers_only():
    assert importlib.util.find_spec("triton_python_backend_utils") is None


# ---------------------------------------------------------------------- tensors


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (np.array(["é", b"\xff", 3], object), ["é".encode(), b"\xff", b"3"]),
        (np.array([b"a", b"bcd"]), [b"a", b"bcd"]),
        (np.array([[b"a"], ["b"]], object), [[b"a"], [b"b"]]),
    ],
)
def test_words_go_out_as_bytes_whatever_they_were(array, expected):
    assert sent(pb_utils.Tensor("x", array)).tolist() == expected


def test_numbers_of_the_other_end_go_out_the_right_way_round():
    array = sent(pb_utils.Tensor("x", np.array([1, 2], ">i4")))
    assert (array.dtype, array.tolist()) == (np.dtype("<i4"), [1, 2])


@pytest.mark.parametrize("array", [np.array(["text"]), np.array([1j]), np.array([1], "M8[s]")])
def test_what_has_no_datatype_is_no_tensor(array):
    with pytest.raises(pb_utils.TritonModelException, match="dtype is not supported"):
        pb_utils.Tensor("x", array)


def test_a_list_is_no_array_and_a_number_no_name():
    with pytest.raises(TypeError, match=r"Tensor\(str, list\)"):
        pb_utils.Tensor("x", [1])
    with pytest.raises(TypeError, match=r"Tensor\(int, ndarray\)"):
        pb_utils.Tensor(1, np.zeros(1))


def test_memory_is_shared_by_capsule_and_by_protocol():
    one = tensor(1, 2, 3)
    for given in (one, one.to_dlpack(), one.as_numpy()):
        other = pb_utils.Tensor.from_dlpack("other", given)
        np.testing.assert_array_equal(other.as_numpy(), one.as_numpy())
        assert np.shares_memory(other.as_numpy(), one.as_numpy())
    with pytest.raises(pb_utils.TritonModelException, match="string"):
        tensor(b"a", kind=object).to_dlpack()


def test_a_tensor_tells_about_itself():
    one = tensor(1, 2, name="n")
    assert (one.name(), one.shape(), one.is_cpu(), one.triton_dtype()) == ("n", [2], True, "FP32")
    assert tensor(b"a", kind=object).triton_dtype() == "BYTES"


def test_datatypes_have_three_names():
    for name, kind in pb_utils.TRITON_STRING_TO_NUMPY.items():
        assert pb_utils.triton_string_to_numpy(name) is kind
        number = pb_utils.numpy_to_triton_type(kind)
        assert np.dtype(pb_utils.triton_to_numpy_type(number)) == np.dtype(kind)
    assert pb_utils.triton_to_numpy_type(11) is np.float32
    for unknown in ("TYPE_NONE", "FP32"):
        with pytest.raises(KeyError):
            pb_utils.triton_string_to_numpy(unknown)
    with pytest.raises(KeyError):
        pb_utils.triton_to_numpy_type(0)


# ---------------------------------------------------------------------- errors and responses


@pytest.mark.parametrize("code", CODES)
def test_an_error_keeps_its_code_on_the_way_where_this_side_has_one_like_it(code):
    error = pb_utils.TritonError("wrong", getattr(pb_utils.TritonError, code))
    told = result_of(pb_utils.InferenceResponse(error=error), [])
    assert isinstance(told, XirangError)
    assert str(told) == error.message() == str(error) == "wrong"
    alike = {"UNKNOWN": "INTERNAL", "ALREADY_EXISTS": "INVALID_ARG", "CANCELLED": "INTERNAL"}
    assert CODES[code_of(told)] == alike.get(code, code)


def test_an_error_is_internal_unless_it_says_more():
    assert pb_utils.TritonError("wrong").code() == pb_utils.TritonError.INTERNAL
    assert isinstance(error_of(99, "odd"), ModelFailed)


def test_a_response_holds_tensors_and_errors_of_this_module_only():
    with pytest.raises(TypeError, match="list of Tensor"):
        pb_utils.InferenceResponse([np.zeros(1)])
    with pytest.raises(TypeError, match="expected a TritonError"):
        pb_utils.InferenceResponse(error="wrong")
    response = pb_utils.InferenceResponse([tensor(1, name="a"), tensor(2, name="b")])
    assert not response.has_error()
    assert pb_utils.get_output_tensor_by_name(response, "b").as_numpy() == [2]
    assert pb_utils.get_output_tensor_by_name(response, "c") is None
    assert list(result_of(response, ["b", "z"])) == ["b"]


def test_a_sender_takes_one_response_where_one_is_due():
    sender = InferenceResponseSender(None, ["x"])
    sender.send(pb_utils.InferenceResponse([tensor(1)]))
    with pytest.raises(pb_utils.TritonModelException, match="sends one a request"):
        sender.send(pb_utils.InferenceResponse([tensor(2)]))
    sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
    with pytest.raises(pb_utils.TritonModelException, match="has been closed"):
        sender.send()
    assert sender.last()["x"] == [1]


def test_the_log_takes_all_levels(caplog):
    with caplog.at_level(logging.DEBUG, "triton_python_backend"):
        pb_utils.Logger.log("a")
        pb_utils.Logger.log("b", pb_utils.Logger.ERROR)
        pb_utils.Logger.log_info("c %s")
        pb_utils.Logger.log_warn("d")
        pb_utils.Logger.log_error("e")
        pb_utils.Logger.log_verbose("f")
    assert [(r.levelname[0], r.getMessage()) for r in caplog.records] == [
        ("I", "a"),
        ("E", "b"),
        ("I", "c %s"),
        ("W", "d"),
        ("E", "e"),
        ("D", "f"),
    ]


def test_what_is_not_there_is_named():
    with pytest.raises(AttributeError, match="has no 'MetricFamily' in xirang"):
        pb_utils.MetricFamily  # noqa: B018


# ---------------------------------------------------------------------- configurations


def test_a_configuration_is_completed_and_not_contradicted():
    config = pb_utils.ModelConfig({"name": "m", "max_batch_size": 0, "input": [], "output": []})
    config.add_input({"name": "x", "data_type": "TYPE_FP32", "dims": [4]})
    config.add_input({"name": "x", "data_type": "TYPE_FP32", "dims": [4]})
    config.add_output({"name": "y", "data_type": "TYPE_FP32", "dims": [4]})
    config.set_max_batch_size(8)
    config.set_dynamic_batching()
    config.set_model_transaction_policy({"decoupled": True})
    told = config.as_dict()
    assert told["input"] == [{"name": "x", "data_type": "TYPE_FP32", "dims": [4]}]
    assert pb_utils.get_input_config_by_name(told, "x")["dims"] == [4]
    assert pb_utils.get_output_config_by_name(told, "x") is None
    assert told["dynamic_batching"] == {}
    assert pb_utils.using_decoupled_model_transaction_policy(told)


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (lambda c: c.add_input({"data_type": "TYPE_FP32", "dims": [1]}), "missing 'name' property"),
        (lambda c: c.add_output({"name": "y", "dims": [1]}), "missing 'data_type' property"),
        (
            lambda c: c.add_output({"name": "y", "data_type": "TYPE_FP32"}),
            "missing 'dims' property",
        ),
        (
            lambda c: c.add_input(
                {"name": "y", "data_type": "TYPE_FP32", "dims": [1], "format": "FORMAT_NONE"}
            ),
            "contains property other than",
        ),
        (
            lambda c: c.add_input({"name": "x", "data_type": "TYPE_INT32", "dims": [4]}),
            "expects data_type TYPE_FP32 for input 'x'",
        ),
        (
            lambda c: c.add_input({"name": "x", "data_type": "TYPE_FP32", "dims": [5]}),
            r"expects dims \[4\] for input 'x'",
        ),
        (lambda c: c.set_max_batch_size(2), "specifies max_batch_size 4"),
        (lambda c: c.set_dynamic_batching(), "scheduling_choice as sequence_batching"),
        (lambda c: c.set_model_transaction_policy({"coupled": 1}), "other than 'decoupled'"),
        (lambda c: c.set_model_transaction_policy({"decoupled": True}), "already set to 'False'"),
    ],
)
def test_what_contradicts_a_configuration_is_refused(act, words):
    config = {
        "name": "m",
        "max_batch_size": 4,
        "input": [{"name": "x", "data_type": "TYPE_FP32", "dims": [4]}],
        "output": [],
        "sequence_batching": {},
        "model_transaction_policy": {"decoupled": False},
    }
    with pytest.raises(ValueError, match=words):
        act(pb_utils.ModelConfig(config))


# ---------------------------------------------------------------------- model files


def test_a_model_file_shows_what_its_configuration_says(tmp_path):
    model = model_file(
        tmp_path,
        "    def initialize(self, args):\n        self.name = args['model_instance_name']\n"
        "    def execute(self, requests):\n"
        "        y = pb_utils.Tensor('y', np.array([self.name], object))\n"
        "        return [pb_utils.InferenceResponse([y]) for _ in requests]\n",
        max_batch_size=4,
    )
    assert model.inputs == (TensorSpec("x", "FP32", (None, None)),)
    assert model.outputs == (TensorSpec("y", "BYTES", (None,)),)
    assert (model.is_decoupled, model.takes_lists) == (False, False)
    assert model.run_requests([asked(1), asked(2)])[1]["y"].tolist() == [b"m_0_3"]
    assert model.run({"x": np.zeros((1, 1), np.float32)}, ["y"])["y"].tolist() == [b"m_0_3"]


def test_ragged_inputs_make_a_model_that_takes_any_shapes(tmp_path):
    ragged = {"name": "x", "data_type": "TYPE_FP32", "dims": [-1], "allow_ragged_batch": True}
    body = "    def execute(self, requests): ...\n"
    assert model_file(tmp_path / "a", body, input=[ragged]).takes_lists
    fixed = {"name": "z", "data_type": "TYPE_FP32", "dims": [3]}
    assert model_file(tmp_path / "b", body, input=[ragged, fixed]).takes_lists
    plain = {"name": "z", "data_type": "TYPE_FP32", "dims": [-1]}
    assert not model_file(tmp_path / "c", body, input=[ragged, plain]).takes_lists


def test_a_fault_in_a_model_file_is_told_with_its_own_last_line(tmp_path):
    body = "    def initialize(self, args):\n        pb_utils.Tensor('x', [1])\n"
    with pytest.raises(InvalidSetting) as raised:
        model_file(tmp_path, body)
    assert "TypeError: Tensor(str, list)" in str(raised.value)
    assert f"({tmp_path}/m/1/model.py, line 5, in initialize)" in str(raised.value)


@pytest.mark.parametrize(
    "body",
    [
        "    @staticmethod\n    def auto_complete_config(config):\n        return None\n",
        "    @staticmethod\n    def auto_complete_config(config):\n        return {}[config]\n",
        "    def __init__(self):\n        raise SystemExit(3)\n",
    ],
)
def test_whatever_it_raises_before_it_serves_is_a_load_error(tmp_path, body):
    with pytest.raises(InvalidSetting):
        model_file(tmp_path, body)


def test_other_models_answer_or_their_error_is_told(tmp_path):
    model = model_file(
        tmp_path,
        "    def execute(self, requests):\n"
        "        inner = pb_utils.InferenceRequest(model_name='z', requested_output_names=['y'],\n"
        "            inputs=requests[0].inputs())\n"
        "        response = inner.exec()\n"
        "        assert response.error().code() == pb_utils.TritonError.NOT_FOUND\n"
        "        return [pb_utils.InferenceResponse(error=response.error())]\n",
    )
    (told,) = model.run_requests([asked(1)])
    assert (str(told), told.status) == ("no model 'z'", 404)


def test_between_runs_nobody_can_be_asked():
    request = pb_utils.InferenceRequest(model_name="z", inputs=[], requested_output_names=["y"])
    pb_utils.InferenceRequest._server = server = NobodyElse()
    server.is_in_run = False
    with pytest.raises(pb_utils.TritonModelException, match="while requests are executed"):
        request.exec()
    with pytest.raises(pb_utils.TritonModelException, match="decoupled"):
        request.exec(decoupled=True)
    with pytest.raises(pb_utils.TritonModelException, match="no sender"):
        request.get_response_sender()


def test_a_decoupled_model_hands_out_parts_and_keeps_the_last(tmp_path):
    server = NobodyElse()
    model = model_file(
        tmp_path,
        "    def execute(self, requests):\n"
        "        for request in requests:\n"
        "            sender = request.get_response_sender()\n"
        "            y = pb_utils.Tensor('y', np.array([b'a', b'b']))\n"
        "            sender.send(pb_utils.InferenceResponse([y]))\n"
        "            sender.send(pb_utils.InferenceResponse(error=pb_utils.TritonError('e')))\n"
        "            sender.send(pb_utils.InferenceResponse([y]), flags=1)\n",
        server,
        model_transaction_policy={"decoupled": True},
    )
    first, second = model.run_requests([asked(1), asked(2)])
    assert first["y"].tolist() == second["y"].tolist() == [b"a", b"b"]
    assert [index for index, _ in server.told] == [0, 0, 1, 1]
    assert isinstance(server.told[1][1], ModelFailed)


def test_a_request_may_be_refused_as_the_clients_fault():
    error = pb_utils.TritonError("too long", pb_utils.TritonError.INVALID_ARG)
    assert isinstance(result_of(pb_utils.InferenceResponse(error=error), []), InvalidRequest)
