"""Tells in JSON what it sees of itself and of each request."""

import json

import numpy as np
import triton_python_backend_utils as pb_utils
from c_python_backend_utils import InferenceResponse


class TritonPythonModel:
    def initialize(self, args):
        self.args = args

    def execute(self, requests):
        return [self.told(request) for request in requests]

    def told(self, request):
        config = json.loads(self.args["model_config"])
        text = pb_utils.get_input_tensor_by_name(request, "TEXT")
        hint = pb_utils.get_input_tensor_by_name(request, "HINT")
        seen = {
            "args": sorted(self.args),
            "name": self.args["model_name"],
            "version": self.args["model_version"],
            "kind": self.args["model_instance_kind"],
            "device": self.args["model_instance_device_id"],
            "mood": config["parameters"]["mood"]["string_value"],
            "rows": config["max_batch_size"],
            "input": pb_utils.get_input_config_by_name(config, "TEXT")["data_type"],
            "no input": pb_utils.get_input_config_by_name(config, "no"),
            "decoupled": pb_utils.using_decoupled_model_transaction_policy(config),
            "text": [element.decode() for element in text.as_numpy().ravel()],
            "is cpu": text.is_cpu(),
            "shape": list(text.shape()),
            "type": str(text.as_numpy().dtype),
            "id": request.request_id(),
            "correlation": request.correlation_id(),
            "parameters": json.loads(request.parameters()),
            "timeout": request.timeout(),
            "wanted": sorted(request.requested_output_names()),
            "inputs": [tensor.name() for tensor in request.inputs()],
            "cancelled": request.is_cancelled(),
            "module": __name__,
            "hint": None if hint is None else hint.as_numpy().tolist(),
        }
        told = np.array([[json.dumps(seen, sort_keys=True)]], np.object_)
        return InferenceResponse([pb_utils.Tensor("SEEN", told)])
