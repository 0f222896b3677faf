"""Python callables: how they are found, declared and called."""

import numpy as np
import pytest
from tests.backends import callables

from xirang.backends.python import PythonExecutable, import_object
from xirang.errors import InvalidRequest, InvalidSetting
from xirang.tensors.split import RowsMismatchError


def run(function, **inputs):
    executable = PythonExecutable(function, name="f")
    wanted = [spec.name for spec in executable.outputs]
    return executable.run(inputs, wanted)


def objects(*rows):
    array = np.empty(len(rows), object)
    array[:] = rows
    return array


def test_without_a_declaration_it_takes_and_gives_strings():
    executable = PythonExecutable(callables.shout, name="shout")
    assert [(s.name, s.datatype, s.shape) for s in executable.inputs] == [("input", "BYTES", (-1,))]
    assert [(s.name, s.shape) for s in executable.outputs] == [("output", (-1,))]
    outputs = run(callables.shout, input=objects(b"a", "ß".encode()))
    assert outputs["output"].tolist() == [b"A", b"SS"]


def test_bytes_that_are_no_text_are_the_requests_fault():
    with pytest.raises(InvalidRequest, match="not UTF-8"):
        run(callables.shout, input=objects(b"a", b"\xff"))


def test_one_input_is_given_as_it_is():
    outputs = run(callables.double, x=np.ones((3, 4), np.float32))
    assert outputs["y"].tolist() == [[2.0] * 4] * 3
    assert outputs["y"].dtype == np.float32


def test_an_array_counts_as_a_list_of_rows():
    outputs = run(callables.as_one_array, x=np.arange(6).reshape(2, 3))
    assert outputs["y"].tolist() == [[1, 2, 3], [4, 5, 6]]


def test_rows_of_words_keep_their_shape():
    given = objects(b"a", b"b", b"c", b"d").reshape(2, 2)
    outputs = run(callables.words, w=given)
    assert outputs["v"].tolist() == [[b"b", b"a!"], [b"d", b"c!"]]


def test_another_number_of_results_is_refused():
    with pytest.raises(RowsMismatchError, match="returned list of 1 for a list of 2 inputs"):
        run(callables.lose_one, input=objects(b"a", b"b"))
    with pytest.raises(RowsMismatchError, match="returned NoneType for a list of 1"):
        run(lambda rows: None, input=objects(b"a"))
    with pytest.raises(RowsMismatchError, match="returned str of 1"):
        run(lambda rows: "a", input=objects(b"a"))


def test_objects_are_found_by_name_and_classes_are_made():
    module = callables.__name__
    assert import_object(f"{module}:shout") is callables.shout
    assert isinstance(import_object(f"{module}:AddSub"), callables.AddSub)
    assert import_object(f"{module}:AddSub.__call__") is callables.AddSub.__call__


def test_a_module_beside_the_user_is_found(tmp_path, monkeypatch):
    (tmp_path / "beside_the_user.py").write_text("def f(texts):\n    return texts\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", ["/nowhere"])
    assert import_object("beside_the_user:f")(["a"]) == ["a"]


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("no_such_module:f", "cannot import no_such_module:f"),
        ("tests.backends.callables:no", "expected module:name"),
        ("tests.backends.callables:NOT_CALLABLE", "is not callable"),
    ],
)
def test_what_cannot_be_served_is_refused_by_name(name, part):
    with pytest.raises(InvalidSetting, match=part):
        import_object(name)


@pytest.mark.parametrize(
    "declared",
    [
        {"x": ("FLOAT", [4])},
        {"x": "FP32"},
        {"x": ("FP32", 4)},
        ["x"],
        {"x": ("FP32", [4], "more")},
    ],
    ids=str,
)
def test_declarations_that_are_not_understood_are_refused(declared):
    class Declared:
        inputs = declared

        def __call__(self, rows):
            return rows

    with pytest.raises(InvalidSetting, match=r"inputs of f is .* expected a dict of name"):
        PythonExecutable(Declared(), name="f")
