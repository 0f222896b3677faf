"""Twice what it is given; it does not like 99, and is slow at 77."""

import threading

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            x = pb_utils.get_input_tensor_by_name(request, "X").as_numpy()
            if (x == 77).any():
                threading.Event().wait(1.0)
            if (x == 99).any():
                code = pb_utils.TritonError.INVALID_ARG
                error = pb_utils.TritonError("it does not like 99", code)
                responses.append(pb_utils.InferenceResponse(error=error))
            else:
                responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("Y", x * 2)]))
        return responses
