"""Python callables as a user would write them, for the tests of their backend."""

import numpy as np


def shout(texts):
    """No declaration: strings in, strings out."""
    return [text.upper() for text in texts]


def double(rows):
    return [row * 2 for row in rows]


double.inputs = {"x": ("FP32", [4])}
double.outputs = {"y": ("FP32", [4])}


class AddSub:
    """Two inputs, two outputs."""

    inputs = {"INPUT0": ("INT32", [16]), "INPUT1": ("INT32", [16])}  # noqa: RUF012
    outputs = {"OUTPUT0": ("INT32", [16]), "OUTPUT1": ("INT32", [16])}  # noqa: RUF012

    def __call__(self, items):
        return [
            {"OUTPUT0": i["INPUT0"] + i["INPUT1"], "OUTPUT1": i["INPUT0"] - i["INPUT1"]}
            for i in items
        ]


def as_one_array(rows):
    """An array counts as a list of its rows."""
    return np.stack(rows) + 1


as_one_array.inputs = {"x": ("INT64", [-1])}
as_one_array.outputs = {"y": ("INT64", [-1])}


def words(rows):
    """Two words a row, given as bytes, in another order."""
    return [[row[1], row[0].decode() + "!"] for row in rows]


words.inputs = {"w": ("BYTES", [2])}
words.outputs = {"v": ("BYTES", [2])}


def lose_one(rows):
    return rows[1:]


NOT_CALLABLE = 3


class NeedsArguments:
    def __init__(self, path):
        self.path = path

    def __call__(self, rows):
        return rows
