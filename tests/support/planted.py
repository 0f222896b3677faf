"""Small models that batching or padding changes, and some that look so and are not changed."""

from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper, parser

HEAD = '<ir_version: 8, opset_import: ["" : 17]>'


def write(folder: Path, text: str, weights: dict[str, np.ndarray] | None = None) -> Path:
    """An ONNX file from ONNX's own text form; weights are initializers beside those in the text."""
    model = parser.parse_model(f"{HEAD}\n{text}")
    for name, array in (weights or {}).items():
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    onnx.checker.check_model(model)
    path = folder / f"{model.graph.name}.onnx"
    onnx.save(model, path)
    return path


ROWS_MIX = {
    "softmax_over_rows": """m (float[N,4] x) => (float[N,4] y) { y = Softmax<axis=0>(x) }""",
    "scale_over_all": """m (float[N,4] x) => (float[N,4] y) {
        a = Abs(x)  top = ReduceMax<keepdims=0>(a)  y = Div(x, top) }""",
    "norm_of_a_training": """m (float[N,4] x) => (float[N,4] y)
        <float[4] s = {1,1,1,1}, float[4] b = {0,0,0,0}, float[4] v = {1,1,1,1}> {
        mean = ReduceMean<axes=[0]>(x)  d = Sub(x, mean)  dd = Mul(d, d)
        w = ReduceMean<axes=[0]>(dd)  one = Constant<value_float=0.001>()  e = Add(w, one)
        r = Sqrt(e)  y = Div(d, r) }""",
    "backwards_over_rows": """m (float[N,4] x) => (float[N,4] y)
        <int64[1] start = {-1}, int64[1] end = {-9223372036854775807}, int64[1] axis = {0},
         int64[1] step = {-1}> { y = Slice(x, start, end, axis, step) }""",
    "sums_over_earlier_rows": """m (float[N,4] x) => (float[N,4] y)
        <int64 axis = {0}> { y = CumSum(x, axis) }""",
    "one_sum_for_all": """m (float[N,4] x) => (float[1,4] y) {
        axis = Constant<value_ints=[0]>()  y = ReduceSum(x, axis) }""",
    "likeness_of_rows": """m (float[N,4] x) => (float[N,N] y) {
        t = Transpose<perm=[1,0]>(x)  y = MatMul(x, t) }""",
    "largest_row": """m (float[N,4] x) => (int64[1,4] y) { y = ArgMax<axis=0>(x) }""",
    "rows_flattened": """m (float[N,L] x) => (float[M] y)
        <int64[1] flat = {-1}> { y = Reshape(x, flat) }""",
    "as_many_as_positive": """m (float[N,4] x) => (int64[2,M] y) { y = NonZero(x) }""",
}
"""Each row's answer depends on the others, or cannot be told apart from theirs."""

LENGTH_COUNTS = {
    "mean": """m (float[N,L] x) => (float[N,1] y) { y = ReduceMean<axes=[1]>(x) }""",
    "norm_over_length": """m (float[N,L,4] x) => (float[N,L,4] y) {
        mean = ReduceMean<axes=[1]>(x)  d = Sub(x, mean)  dd = Mul(d, d)
        w = ReduceMean<axes=[1]>(dd)  r = Sqrt(w)  y = Div(d, r) }""",
    "places_from_the_end": """m (float[N,L] x) => (float[N,L] y)
        <int64 zero = {0}, int64 one = {1}, int64 at = {1}> {
        s = Shape(x)  n = Gather(s, at)  places = Range(zero, n, one)
        p = Sub(n, places)  f = Cast<to=1>(p)  y = Mul(x, f) }""",
    "backwards_over_length": """m (float[N,L] x) => (float[N,L] y)
        <int64[1] start = {-1}, int64[1] end = {-9223372036854775807}, int64[1] axis = {1},
         int64[1] step = {-1}> { y = Slice(x, start, end, axis, step) }""",
    "last_token": """m (float[N,L,4] x) => (float[N,4] y)
        <int64 last = {-1}> { y = Gather<axis=1>(x, last) }""",
    "nan_where_padded": """m (float[N,L] x) => (float[N,1] y) {
        xx = Mul(x, x)  l = Log(xx)  z = Mul(l, x)  axis = Constant<value_ints=[1]>()
        y = ReduceSum(z, axis) }""",
    "distance_to_the_middle": """m (float[N,L] x) => (int64[N,1] y) {
        mean = ReduceMean<axes=[1]>(x)  d = Sub(x, mean)  dd = Mul(d, d)
        y = ArgMax<axis=1>(dd) }""",
    "length_itself": """m (int64[N,L] x) => (int64[N,1] y) <int64 at = {1}> {
        s = Shape(x)  n = Gather(s, at)  zeros = Sub(x, x)  ns = Add(zeros, n)
        y = ReduceMax<axes=[1]>(ns) }""",
}
"""Padding changes answers, whatever is padded with."""

NEUTRAL_AT_THE_LOWEST = {
    "largest": """m (float[N,L] x) => (float[N,1] y) { y = ReduceMax<axes=[1]>(x) }""",
    "place_of_the_largest": """m (float[N,L] x) => (int64[N,1] y) { y = ArgMax<axis=1>(x) }""",
    "softmax": """m (float[N,L] x) => (float[N,L] y) { y = Softmax<axis=1>(x) }""",
}
"""Zeros would change answers of negative numbers; the lowest number there is changes nothing."""

UNCHANGED = {
    "sums_over_earlier_tokens": """m (float[N,L] x) => (float[N,L] y)
        <int64 axis = {1}> { y = CumSum(x, axis) }""",
    "sum": """m (float[N,L] x) => (float[N,1] y) {
        axis = Constant<value_ints=[1]>()  y = ReduceSum(x, axis) }""",
    "scale_of_each_row": """m (float[N,L] x) => (float[N,L] y) {
        a = Abs(x)  top = ReduceMax<axes=[1]>(a)  y = Div(x, top) }""",
    "masked_mean": """m (float[N,L] x, float[N,L] attention_mask) => (float[N,1] y) {
        k = Mul(x, attention_mask)  axis = Constant<value_ints=[1]>()  s = ReduceSum(k, axis)
        n = ReduceSum(attention_mask, axis)  y = Div(s, n) }""",
    "attention_by_another_name": """m (int64[N,L] tokens, int64[N,L] valid) => (float[N,1] y) {
        one = Constant<value_int=1>()  hidden = Sub(one, valid)  h = Cast<to=1>(hidden)
        far = Constant<value_float=-1000000000.0>()  bias = Mul(h, far)  x = Cast<to=1>(tokens)
        z = Add(x, bias)  p = Softmax<axis=1>(z)  k = Mul(p, x)
        axis = Constant<value_ints=[1]>()  y = ReduceSum(k, axis) }""",
    "padding_is_one": """m (float[N,L] x, bool[N,L] padding_mask) => (float[N,1] y) {
        real = Not(padding_mask)  v = Cast<to=1>(real)  k = Mul(x, v)
        axis = Constant<value_ints=[1]>()  s = ReduceSum(k, axis)  n = ReduceSum(v, axis)
        y = Div(s, n) }""",
    "pad_is_id_one": """m (int64[N,L] input_ids) => (float[N,1] y)
        <int64 pad = {1}> {
        p = Equal(input_ids, pad)  r = Not(p)  v = Cast<to=1>(r)  x = Cast<to=1>(input_ids)
        k = Mul(x, v)  axis = Constant<value_ints=[1]>()  s = ReduceSum(k, axis)
        n = ReduceSum(v, axis)  zero = Constant<value_float=0.001>()  m2 = Max(n, zero)
        y = Div(s, m2) }""",
}
"""Rows keep to themselves and padding is neutral."""

TWO_WAYS = """m (float[N,L,3] x) => (float[L,2,N,4] y) {
    t = Transpose<perm=[1,0,2]>(x)
    y = LSTM<hidden_size=4, direction="bidirectional">(t, w, r, b) }"""
"""Forwards and backwards through each row, and through its padding."""

TWO_WAYS_WITH_LENGTHS = """m (float[N,L,3] x, int32[N] lengths) => (float[L,2,N,4] y) {
    t = Transpose<perm=[1,0,2]>(x)
    y = LSTM<hidden_size=4, direction="bidirectional">(t, w, r, b, lengths) }"""


def two_ways_weights() -> dict[str, np.ndarray]:
    """For both of these."""
    random = np.random.default_rng(0)
    shapes = {"w": (2, 16, 3), "r": (2, 16, 4), "b": (2, 32)}
    return {n: random.standard_normal(shape).astype(np.float32) for n, shape in shapes.items()}
