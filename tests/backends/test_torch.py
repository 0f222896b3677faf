"""PyTorch: what its archives say, what is never unpickled, and sequences without padding."""

import json
import zipfile

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tests.support import torch_models  # noqa: E402
from tests.support.packed_encoder import PackedEncoder, PaddedEncoder  # noqa: E402
from torch.fx.experimental import _config  # noqa: E402

from xirang.backends.executable import is_packed  # noqa: E402
from xirang.backends.torch import TorchExecutable, torch_file, torch_module  # noqa: E402
from xirang.backends.torch_check import check  # noqa: E402
from xirang.backends.torch_place import CpuPlace, place_of  # noqa: E402
from xirang.config import ModelSettings  # noqa: E402
from xirang.core.signature import Layout, Tie  # noqa: E402
from xirang.engine.clock import MonotonicClock  # noqa: E402
from xirang.errors import InvalidRequest, InvalidSetting  # noqa: E402
from xirang.repository.discover import discover  # noqa: E402
from xirang.repository.load import load  # noqa: E402
from xirang.tensors.packed import OFFSETS, offsets, pack, unpack  # noqa: E402
from xirang.tensors.tensor import of_array  # noqa: E402

ROW = {"x": torch.ones(2, 3)}


class Sums(torch.nn.Module):
    """A tuple of outputs, a keyword of an input."""

    def forward(self, x, *, y):
        return x + y, x - y


def told(specs):
    return {spec.name: (spec.datatype, spec.dims) for spec in specs}


# ---------------------------------------------------------------------- exported programs


def test_symbols_and_their_bounds_come_from_the_program(tmp_path):
    table = np.ones((9, 4), np.float32)
    example = {"ids": torch.ones(2, 5, dtype=torch.int64), "scale": torch.ones(2, 1)}
    module = torch_models.Lookup(table)
    executable = torch_file(
        torch_models.save_exported(tmp_path / "m.pt2", module, example, axes=(0, 1), most=8)
    )
    batch, tokens = executable.inputs[0].dims
    assert told(executable.inputs) == {
        "ids": ("INT64", (batch, tokens)),
        "scale": ("FP32", (batch, 1)),
    }
    assert told(executable.outputs) == {
        "hidden": ("FP32", (batch, tokens, 4)),
        "total": ("FP32", (batch, 4)),
    }
    assert executable.bounds == {batch: (1, 8), tokens: (1, 99)}
    inputs = {"ids": np.ones((9, 2), np.int64), "scale": np.ones((9, 1), np.float32)}
    with pytest.raises(InvalidRequest, match="to be <= 8, but got 9"):
        executable.run(inputs, ["total"])


def test_a_tuple_is_named_by_number_and_keywords_are_given(tmp_path):
    program = torch.export.export(Sums(), (torch.ones(2),), {"y": torch.ones(2)})
    torch.export.save(program, tmp_path / "m.pt2")
    executable = torch_file(tmp_path / "m.pt2")
    assert [spec.name for spec in executable.inputs] == ["x", "y"]
    x, y = np.array([3, 4], np.float32), np.array([1, 1], np.float32)
    outputs = executable.run({"y": y, "x": x}, ["output_1", "output_0"])
    assert {name: array.tolist() for name, array in outputs.items()} == {
        "output_1": [2, 3],
        "output_0": [4, 5],
    }


def test_bfloat16_comes_out_as_float32(tmp_path):
    class Half(torch.nn.Module):
        def forward(self, x):
            return x.to(torch.bfloat16) * 2

    executable = torch_file(torch_models.save_exported(tmp_path / "m.pt2", Half(), ROW))
    assert executable.outputs[0].datatype == "FP32"
    (y,) = executable.run({"x": np.ones((1, 3), np.float32)}, ["output"]).values()
    assert (y.dtype, y.tolist()) == (np.float32, [[2, 2, 2]])


@pytest.mark.parametrize("kind", ["nested inputs", "nested outputs", "complex"])
def test_what_has_no_place_in_the_protocol_is_refused(kind, tmp_path):
    class Nested(torch.nn.Module):
        def forward(self, x):
            if kind == "nested inputs":
                return x[0] + x[1]
            return (x, (x,)) if kind == "nested outputs" else x.to(torch.complex64)

    given = [torch.ones(2), torch.ones(2)] if kind == "nested inputs" else torch.ones(2)
    torch.export.save(torch.export.export(Nested(), (given,)), tmp_path / "m.pt2")
    with pytest.raises(InvalidSetting, match=f"{kind}|is torch.complex64"):
        torch_file(tmp_path / "m.pt2")


def test_names_may_be_given_along(tmp_path):
    says = {"inputs": {"x": ["FP32", [3]]}, "outputs": {"y": ["FP32", [3]]}}
    path = torch_models.save_exported(tmp_path / "m.pt2", torch_models.Same(), ROW, says=says)
    executable = torch_file(path)
    assert told(executable.outputs) == {"y": ("FP32", (None, 3))}
    assert executable.run({"x": np.ones((4, 3), np.float32)}, ["y"])["y"].shape == (4, 3)


@pytest.mark.parametrize("suffix", [".pt", ".pt2"])
def test_what_is_kept_from_call_to_call_is_seen(suffix, tmp_path):
    save = torch_models.save_exported if suffix == ".pt2" else torch_models.save_script
    counter = torch_file(save(tmp_path / f"counter{suffix}", torch_models.Counter(), ROW))
    plain = torch_file(save(tmp_path / f"plain{suffix}", torch_models.Same(), ROW))
    assert (counter.is_reentrant, plain.is_reentrant) == (False, True)


# ---------------------------------------------------------------------- nothing is unpickled


class Trap:
    """Unpickling it leaves a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return type(self.path).touch, (self.path,)


@pytest.mark.parametrize("name", ["model.pt", "model.pt2"])
def test_a_pickle_is_refused_and_not_opened(name, tmp_path):
    torch.save({"trap": Trap(tmp_path / "sprung")}, tmp_path / name)
    with pytest.raises(InvalidSetting, match=r"a pickled module .*is never loaded"):
        torch_file(tmp_path / name)
    assert not (tmp_path / "sprung").exists()


def changed(path, *, suffix, content):
    """The archive with one entry replaced."""
    other = path.with_name("changed.pt2")
    with zipfile.ZipFile(path) as source, zipfile.ZipFile(other, "w") as target:
        for entry in source.namelist():
            target.writestr(entry, content if entry.endswith(suffix) else source.read(entry))
    return other


def test_a_pickle_among_the_example_inputs_is_left_alone(tmp_path):
    path = torch_models.save_exported(tmp_path / "m.pt2", torch_models.Same(), ROW)
    torch.save((Trap(tmp_path / "sprung"),), tmp_path / "trap")
    trap = (tmp_path / "trap").read_bytes()
    executable = torch_file(changed(path, suffix="sample_inputs/model.pt", content=trap))
    assert executable.run({"x": np.ones((1, 3), np.float32)}, ["output"])
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize(
    "payload",
    [
        {"path_name": "weight_0", "use_pickle": True},
        {"path_name": "custom_obj_0", "use_pickle": False},
    ],
)
def test_a_weight_that_is_pickled_is_refused(payload, tmp_path):
    path = torch_models.save_exported(tmp_path / "m.pt2", torch_models.Same(), ROW)
    config = json.dumps({"config": {"secret": payload}}).encode()
    broken = changed(path, suffix="model_constants_config.json", content=config)
    with pytest.raises(InvalidSetting, match=r"keeps \['secret'\] pickled"):
        torch_file(broken)


def test_compiled_code_is_refused(tmp_path):
    path = torch_models.save_exported(tmp_path / "m.pt2", torch_models.Same(), ROW)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("m/data/aotinductor/model/model.so", b"")
    with pytest.raises(InvalidSetting, match="holds compiled code"):
        torch_file(path)


@pytest.mark.parametrize("content", [b"", b"junk"])
@pytest.mark.parametrize("name", ["broken.pt", "broken.pt2"])
def test_a_file_that_is_no_archive_is_refused_by_name(name, content, tmp_path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InvalidSetting, match=name):
        torch_file(tmp_path / name)


# ---------------------------------------------------------------------- TorchScript and modules


def test_a_traced_archive_is_known_by_its_example(tmp_path):
    executable = torch_file(torch_models.save_script(tmp_path / "m.pt", torch.nn.Linear(3, 5), ROW))
    assert told(executable.inputs) == {"input": ("FP32", ("batch", 3))}
    assert told(executable.outputs) == {"output": ("FP32", ("batch", 5))}
    outputs = executable.run({"input": np.zeros((4, 3), np.float32)}, ["output"])
    assert outputs["output"].shape == (4, 5)


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_a_scripted_archive_has_to_say_what_it_takes(tmp_path):
    torch.jit.save(torch.jit.script(torch.nn.Linear(3, 5)), tmp_path / "m.pt")
    with pytest.raises(InvalidSetting, match="expected an extra file _xirang_signature"):
        torch_file(tmp_path / "m.pt")


@pytest.mark.parametrize("says", ["{", "[]", {"inputs": {"x": "FP32"}}])
def test_a_declaration_that_is_not_understood_is_refused(says, tmp_path):
    path = torch_models.save_script(tmp_path / "m.pt", torch_models.Same(), ROW, says=says)
    with pytest.raises(InvalidSetting, match=r"m\.pt"):
        torch_file(path)


def test_a_module_may_bring_an_example_and_a_maker_may_make_it():
    def make():
        module = torch.nn.Linear(3, 5)
        module.example_inputs = (torch.ones(2, 3),)
        return module

    for model in (make, make()):
        executable = torch_module(model, name="linear")
        assert told(executable.inputs) == {"input": ("FP32", ("batch", 3))}
        assert told(executable.outputs) == {"output": ("FP32", ("batch", 5))}
        assert not executable.is_reentrant  # unless it says so


def test_a_function_over_tensors_is_a_model():
    def double(x):
        return x * 2

    double.inputs, double.outputs = {"x": ("FP32", [2])}, {"y": ("FP32", [2])}
    executable = torch_module(double, name="double")
    outputs = executable.run({"x": np.ones((1, 2), np.float32)}, ["y"])
    assert outputs["y"].tolist() == [[2, 2]]


def test_a_module_that_says_nothing_is_refused():
    with pytest.raises(InvalidSetting, match="inputs of linear is None"):
        torch_module(torch.nn.Linear(3, 5), name="linear")
    silent = torch.nn.Linear(3, 5)
    silent.example_inputs = (torch.ones(2, 4),)
    with pytest.raises(InvalidSetting, match="linear refuses its own example"):
        torch_module(silent, name="linear")


# ---------------------------------------------------------------------- places and memory


@pytest.mark.parametrize("threads", [1, 2])
def test_the_thread_that_runs_gets_the_models_threads(threads):
    seen = []
    CpuPlace(threads=threads).run(lambda tensors: seen.append(torch.get_num_threads()) or {}, {})
    assert seen == [threads]


def test_a_device_that_is_not_there_is_refused():
    assert place_of("cpu", threads=1).device == "cpu"
    with pytest.raises(InvalidSetting, match="there is no device 'cuda:99'"):
        place_of("cuda:99", threads=1)


def test_the_check_says_what_it_could_not_check():
    lines = list(check("cpu"))
    assert lines[-1] == "all of it passed on cpu"
    if not torch.cuda.is_available():
        assert list(check("cuda"))[-1].startswith("nothing was checked: there is no device")


# ---------------------------------------------------------------------- packed


LENGTHS = [5, 1, 17, 9]
LAYOUTS = {"hidden": Layout(ties=(Tie(1),))}


@pytest.fixture
def sequences():
    rng = np.random.default_rng(0)
    return [rng.integers(1, 100, (1, length)) for length in LENGTHS]


def packed_answers(executable, arrays):
    """What an instance does with a packed run."""
    rows, lengths = [len(a) for a in arrays], [a.shape[1] for a in arrays]
    ids = pack([of_array(array) for array in arrays], LAYOUTS["hidden"])
    inputs = {"ids": ids, OFFSETS: offsets(rows=rows, lengths=lengths)}
    outputs = executable.run(inputs, ["hidden", "mean"])
    return unpack(outputs, rows=rows, lengths=lengths, layouts=LAYOUTS)


def test_packed_sequences_answer_as_padded_ones_do(sequences):
    packed = torch_module(PackedEncoder(), name="packed")
    padded = torch_module(PaddedEncoder(), name="padded")
    assert is_packed(packed)
    assert not is_packed(padded)
    ids, mask = (np.zeros((len(LENGTHS), max(LENGTHS)), np.int64) for _ in range(2))
    for row, sequence in enumerate(sequences):
        ids[row, : sequence.shape[1]] = sequence[0]
        mask[row, : sequence.shape[1]] = 1
    wanted = padded.run({"ids": ids, "mask": mask}, ["hidden", "mean"])
    got = packed_answers(packed, sequences)
    for row, length in enumerate(LENGTHS):
        hidden, mean = got["hidden"][row][0], got["mean"][row][0]
        np.testing.assert_allclose(hidden, wanted["hidden"][row, :length], atol=2e-5)
        np.testing.assert_allclose(mean, wanted["mean"][row], atol=2e-5)


def test_packed_sequences_do_not_see_each_other(sequences):
    packed = torch_module(PackedEncoder(), name="packed")
    got = packed_answers(packed, sequences)
    for row, sequence in enumerate(sequences):
        alone = packed.run({"ids": sequence}, ["hidden", "mean"])
        for name, array in alone.items():
            np.testing.assert_allclose(got[name][row], array, atol=2e-5)


def test_a_packed_model_takes_rows_of_one_length_like_any_other(sequences):
    packed = torch_module(PackedEncoder(), name="packed")
    rows = np.concatenate([sequences[0], sequences[0][:, ::-1]])
    together = packed.run({"ids": rows}, ["mean", "hidden"])
    assert together["hidden"].shape == (2, 5, 32)
    for name, array in packed.run({"ids": rows[1:]}, ["hidden", "mean"]).items():
        np.testing.assert_allclose(together[name][1:], array, atol=2e-5)


@pytest.mark.parametrize("suffix", [".pt", ".pt2"])
def test_an_archive_may_say_that_it_is_packed(suffix, tmp_path):
    module = torch_models.PackedSums()
    says = torch_models.signature_of(module) | {"is_packed": True}
    example = {"ids": torch.arange(5), "cu_seqlens": torch.tensor([0, 2, 5])}
    path = tmp_path / f"m{suffix}"
    if suffix == ".pt":
        torch_models.save_script(path, module, example, says=says)
    else:
        axes = ({0: torch.export.Dim("all", min=2)}, {0: torch.export.Dim("bounds", min=2)})
        with _config.patch(backed_size_oblivious=True):  # else a lone sequence is refused
            program = torch.export.export(module, tuple(example.values()), dynamic_shapes=axes)
        extra = {torch_models.SIGNATURE: json.dumps(says)}
        torch.export.save(program, path, extra_files=extra)
    executable = torch_file(path)
    assert is_packed(executable)
    assert told(executable.inputs) == {"ids": ("INT64", (None, "tokens"))}
    inputs = {"ids": np.array([1, 2, 3, 4]), OFFSETS: np.array([0, 1, 4])}
    outputs = executable.run(inputs, ["doubles", "sum"])
    assert outputs["doubles"].tolist() == [2, 4, 6, 8]
    assert outputs["sum"].tolist() == [1, 9]
    alone = executable.run({"ids": np.array([1, 2]), OFFSETS: np.array([0, 2])}, ["sum"])
    assert alone["sum"].tolist() == [3]
    outputs = executable.run({"ids": np.array([[1, 2], [3, 4]])}, ["doubles", "sum"])
    assert outputs["doubles"].tolist() == [[2, 4], [6, 8]]
    assert outputs["sum"].tolist() == [3, 7]


# ---------------------------------------------------------------------- as a served model


@pytest.mark.parametrize("suffix", [".pt", ".pt2"])
def test_an_archive_is_probed_like_any_model(suffix, tmp_path):
    path = tmp_path / f"lookup{suffix}"
    module = torch_models.Lookup(np.eye(60, 4, dtype=np.float32))
    example = {"ids": torch.ones(2, 5, dtype=torch.int64), "scale": torch.ones(2, 1)}
    if suffix == ".pt2":
        torch_models.save_exported(path, module, example, axes=(0, 1), most=600)
    else:
        says = torch_models.signature_of(module)
        torch_models.save_script(path, module, example, says=says)
    loaded = load(discover([str(path)])[0], ModelSettings(learned="off"), clock=MonotonicClock())
    assert loaded.model.signature.is_batched
    assert not loaded.model.policy.can_pad  # the sum of all tokens has no mask
    assert loaded.model.policy.max_batch_size > 1


def test_a_module_is_found_by_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own_nets.py").write_text(MODULE)
    (source,) = discover(["torch:own_nets:Double"])
    loaded = load(source, ModelSettings(), clock=MonotonicClock())
    assert isinstance(loaded.model.executable, TorchExecutable)
    assert loaded.model.name == "Double"


MODULE = """
import torch

class Double(torch.nn.Module):
    inputs = {"x": ("FP32", [4])}
    outputs = {"y": ("FP32", [4])}

    def forward(self, x):
        return x * 2
"""
