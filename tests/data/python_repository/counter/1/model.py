"""Answers a request with as many responses as it says; below zero with an error in the middle."""

import threading

import numpy as np
import triton_python_backend_utils as pb_utils


def count(sender, number):
    for step in range(abs(number)):
        tensor = pb_utils.Tensor("NUMBER", np.array([step], np.int32))
        sender.send(pb_utils.InferenceResponse([tensor]))
    if number < 0:
        sender.send(pb_utils.InferenceResponse(error=pb_utils.TritonError("below zero")))
    sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)


class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            number = int(pb_utils.get_input_tensor_by_name(request, "COUNT").as_numpy()[0])
            sender = request.get_response_sender()
            threading.Thread(target=count, args=[sender, number]).start()
