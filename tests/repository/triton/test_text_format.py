"""The text format: what people write is read, and what is wrong is named with its line."""

import pytest
from hypothesis import given, strategies as st

from xirang.errors import InvalidSetting
from xirang.repository.triton.text_format import DEPTH_MAX, Block, Scalar, parse


def plain(block):
    """The tree as nested lists of pairs."""
    return [
        (f.name, plain(f.value) if isinstance(f.value, Block) else (f.value.kind, f.value.text))
        for f in block.fields
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("# nothing\n  # but comments", []),
        (
            "a: 1 b: -2, c: 3.5e1; d: 0x1F",
            [(n, ("number", v)) for n, v in zip("abcd", ["1", "-2", "3.5e1", "0x1F"], strict=True)],
        ),
        ("a: TRUE", [("a", ("word", "TRUE"))]),
        ("a: -inf b: nan", [("a", ("number", "-inf")), ("b", ("word", "nan"))]),
        ("a: 'x' \"y\"  # joined", [("a", ("string", "xy"))]),
        (r"a: '\101\x42\n\'\u00e9\U0001F600'", [("a", ("string", "AB\n'é😀"))]),
        (
            "a { } a < b: 1 > a: { b: 2 }",
            [("a", []), ("a", [("b", ("number", "1"))]), ("a", [("b", ("number", "2"))])],
        ),
        ("a [ { b: 1 }, < > ]", [("a", [("b", ("number", "1"))]), ("a", [])]),
        ("a: [ 1, 2 ] a: 3 a: []", [("a", ("number", str(n))) for n in (1, 2, 3)]),
    ],
)
def test_all_forms_are_read(text, expected):
    assert plain(parse(text)) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a", "1:2: expected ':' or '{', found 'the end'"),
        ("\n a 1", "2:4: expected ':' or '{', found '1'"),
        ("a: ", "1:4: expected a value, found 'the end'"),
        ("a: 'x\n'", "1:4: unterminated string"),
        ("a: { b: 1", "1:10: expected '}', found the end"),
        ("a: < b: 1 }", "1:11: expected a word, found '}'"),
        ("}", "1:1: expected a word, found '}'"),
        ("a: 1x", "1:4: expected a space between a number and a name"),
        ("a: [1, ]", "1:8: expected a value, found ']'"),
        ("a: [1 2]", "1:7: expected ',', found '2'"),
        ("a [1]", "1:1: expected ':' behind 'a'"),
        ("a: -b", "1:5: expected a number, found 'b'"),
        ("a: '\\q'", "1:4: unknown escape '\\q' in a string"),
        ("a: '\\xff'", "1:4: the string is not UTF-8"),
        ("a: '\\U99999999'", "1:4: an escape in a string is no character"),
        ("\n\n  ?", "3:3: unexpected character"),
        ("[extension]: 1", "1:1: expected a word, found '['"),
    ],
)
def test_what_is_wrong_is_named_with_line_and_column(text, message):
    with pytest.raises(InvalidSetting) as raised:
        parse(text)
    assert message in str(raised.value)


def test_no_nesting_exhausts_the_stack():
    deep = "a {" * DEPTH_MAX + "}" * DEPTH_MAX
    assert len(parse(deep).fields) == 1
    with pytest.raises(InvalidSetting, match="nested deeper than 100 blocks"):
        parse("a {" * 100_000)


names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True)
scalars = st.one_of(
    st.integers().map(lambda n: ("number", str(n))),
    names.filter(lambda n: n.lower() not in {"inf", "nan"}).map(lambda n: ("word", n)),
    st.text(st.characters(exclude_categories=["Cs"])).map(lambda s: ("string", s)),
)
trees = st.recursive(
    st.lists(st.tuples(names, scalars), max_size=4),
    lambda inner: st.lists(st.tuples(names, st.one_of(scalars, inner)), max_size=4),
    max_leaves=20,
)


def written(tree, draw):
    """A tree in the text format, in one of the ways that it can be written."""
    parts = []
    for name, value in tree:
        if isinstance(value, list):
            opening, closing = draw(st.sampled_from(["{}", "<>"]))
            colon = draw(st.sampled_from(["", ":", " : "]))
            parts.append(f"{name}{colon}{opening}{written(value, draw)}{closing}")
        else:
            kind, text = value
            if kind == "string":
                escaped = "".join(f"\\{byte:03o}" for byte in text.encode())
                text = draw(st.sampled_from([f'"{escaped}"', f"'{escaped}'"]))
            parts.append(f"{name}: {text}")
    separator = draw(st.sampled_from([" ", "\n", ",", ";\n", " # x\n"]))
    return separator.join(parts) + "\n"


@given(trees, st.data())
def test_what_is_written_is_read_again(tree, data):
    assert plain(parse(written(tree, data.draw))) == tree


@given(st.text(alphabet="ab:1-'\"{}<>[],;# \n\\.x", max_size=40))
def test_garbage_is_read_or_refused_with_its_line(text):
    try:
        block = parse(text)
    except InvalidSetting as error:
        line, column, _ = str(error).split(":", 2)
        assert 1 <= int(line) <= text.count("\n") + 1
        assert int(column) >= 1
    else:
        assert all(isinstance(f.value, Block | Scalar) for f in block.fields)
