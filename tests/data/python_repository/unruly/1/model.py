"""Does what it is told, which is mostly wrong."""

import os
import sys
import threading

import numpy as np
import triton_python_backend_utils as pb_utils


def good(number=0.0):
    return [
        pb_utils.Tensor("NUMBER", np.full((1, 1), number, np.float32)),
        pb_utils.Tensor("PROCESS", np.full((1, 1), os.getpid(), np.int64)),
    ]


def error(rest):
    code = getattr(pb_utils.TritonError, rest)
    return pb_utils.InferenceResponse(error=pb_utils.TritonError("it said no", code))


def flood(rest):
    for line in range(int(rest)):
        sys.stdout.write(f"flood {line} {'x' * 200}\n")
    sys.stdout.flush()
    return pb_utils.InferenceResponse(good())


ACTS = {
    "nan": lambda _: pb_utils.InferenceResponse(good(np.nan)),
    "type": lambda _: pb_utils.InferenceResponse(
        [pb_utils.Tensor("NUMBER", np.zeros((1, 1), np.int32)), *good()[1:]]
    ),
    "missing": lambda _: pb_utils.InferenceResponse(good()[1:]),
    "extra": lambda _: pb_utils.InferenceResponse(
        [*good(), pb_utils.Tensor("MORE", np.zeros((1, 1), np.float32))]
    ),
    "error": error,
    "junk": lambda _: "junk",
    "none": lambda _: None,
    "flood": flood,
    "good": lambda _: pb_utils.InferenceResponse(good()),
}


def obey(command):
    word, _, rest = command.partition(" ")
    return ACTS[word](rest)


class TritonPythonModel:
    def execute(self, requests):
        commands = [
            pb_utils.get_input_tensor_by_name(request, "COMMAND").as_numpy()[0, 0].decode()
            for request in requests
        ]
        if "raise" in commands:
            raise RuntimeError("it was told to raise")
        if "exit" in commands:
            os._exit(3)
        if "leave" in commands:
            sys.exit(4)
        if "hang" in commands:
            threading.Event().wait()
        if "count" in commands:
            return []
        if "nothing" in commands:
            return None
        return [obey(command) for command in commands]
