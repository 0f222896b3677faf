"""The sum and the difference of two inputs, in the datatypes that the configuration says."""

import json
import sys

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        config = json.loads(args["model_config"])
        self.types = [
            pb_utils.triton_string_to_numpy(
                pb_utils.get_output_config_by_name(config, name)["data_type"]
            )
            for name in ("OUTPUT0", "OUTPUT1")
        ]

    def execute(self, requests):
        responses = []
        for request in requests:
            one = pb_utils.get_input_tensor_by_name(request, "INPUT0").as_numpy()
            other = pb_utils.get_input_tensor_by_name(request, "INPUT1").as_numpy()
            results = (one + other, one - other)
            tensors = [
                pb_utils.Tensor(name, result.astype(kind))
                for name, result, kind in zip(
                    ("OUTPUT0", "OUTPUT1"), results, self.types, strict=True
                )
            ]
            responses.append(pb_utils.InferenceResponse(output_tensors=tensors))
        return responses

    def finalize(self):
        sys.stdout.write("cleaning up\n")
        sys.stdout.flush()
