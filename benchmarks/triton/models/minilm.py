"""MiniLM through ONNX Runtime: all requests of a batch in one run, padded to the longest."""

import json

import numpy as np
import onnxruntime
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    """Token ids in, the mean of the hidden states out."""

    def initialize(self, args: dict[str, str]) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        parameters = json.loads(args["model_config"])["parameters"]
        self.session = onnxruntime.InferenceSession(
            parameters["file"]["string_value"], options, providers=["CPUExecutionProvider"]
        )

    def execute(self, requests: list) -> list:
        given = [pb_utils.get_input_tensor_by_name(each, "ids").as_numpy() for each in requests]
        rows = [row for ids in given for row in ids]
        ids = np.zeros((len(rows), max(map(len, rows))), np.int64)
        mask = np.zeros_like(ids)
        for number, row in enumerate(rows):
            ids[number, : len(row)] = row
            mask[number, : len(row)] = 1
        inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        (hidden,) = self.session.run(None, inputs)
        kept = mask[:, :, None].astype(np.float32)
        means = (hidden * kept).sum(axis=1) / kept.sum(axis=1)
        answers, first = [], 0
        for each in given:
            tensor = pb_utils.Tensor("embedding", means[first : first + len(each)])
            answers.append(pb_utils.InferenceResponse(output_tensors=[tensor]))
            first += len(each)
        return answers
