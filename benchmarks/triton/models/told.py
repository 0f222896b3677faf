"""A model for the judge of the batcher: it says in which run a request was, and lasts as told."""

import time

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    """The first element of each row is for how many milliseconds the run shall last."""

    def initialize(self, args: dict[str, str]) -> None:
        self.instance = int(args["model_instance_name"].rsplit("_", 1)[-1])
        self.runs = 0

    def execute(self, requests: list) -> list:
        inputs = [pb_utils.get_input_tensor_by_name(each, "IN").as_numpy() for each in requests]
        self.runs += 1
        number = 1000 * self.instance + self.runs
        time.sleep(max(float(rows[:, 0].max()) for rows in inputs) / 1000)
        told = [np.full((len(rows), 1), number, np.int32) for rows in inputs]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("RUN", each)]) for each in told]
