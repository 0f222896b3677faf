"""Sum and difference of two inputs: next to nothing to compute, so what is left is the server."""

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    """One request at a time, as the examples of the Python backend do it."""

    def execute(self, requests: list) -> list:
        responses = []
        for request in requests:
            first = pb_utils.get_input_tensor_by_name(request, "INPUT0").as_numpy()
            second = pb_utils.get_input_tensor_by_name(request, "INPUT1").as_numpy()
            outputs = [
                pb_utils.Tensor("OUTPUT0", first + second),
                pb_utils.Tensor("OUTPUT1", first - second),
            ]
            responses.append(pb_utils.InferenceResponse(output_tensors=outputs))
        return responses
