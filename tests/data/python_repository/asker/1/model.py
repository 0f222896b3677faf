"""Asks other models of the same server, one after another or several at once."""

import asyncio
import threading

import numpy as np
import triton_python_backend_utils as pb_utils


def ask(values, *, model="add_sub", names=("OUTPUT0",), timeout=0):
    row = values.reshape(1, -1)
    return pb_utils.InferenceRequest(
        model_name=model,
        requested_output_names=list(names),
        inputs=[pb_utils.Tensor("INPUT0", row), pb_utils.Tensor("INPUT1", np.ones_like(row))],
        timeout=timeout,
    )


def taken(response):
    if response.has_error():
        raise pb_utils.TritonModelException(response.error().message())
    return pb_utils.get_output_tensor_by_name(response, "OUTPUT0").as_numpy()[0]


async def at_once(values, count):
    responses = await asyncio.gather(*[ask(values + n).async_exec() for n in range(count)])
    return sum(taken(response) for response in responses)


def by_threads(values, count):
    results = [None] * count

    def one(number):
        results[number] = taken(ask(values + number).exec())

    threads = [threading.Thread(target=one, args=[number]) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(results)


class TritonPythonModel:
    def initialize(self, args):
        try:
            ask(np.zeros(4, np.float32)).exec()
        except pb_utils.TritonModelException as error:
            self.refused = str(error)

    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        how = pb_utils.get_input_tensor_by_name(request, "HOW").as_numpy()[0].decode()
        values = pb_utils.get_input_tensor_by_name(request, "VALUES").as_numpy()
        if how == "chain":
            result = taken(ask(taken(ask(values).exec())).exec())
        elif how == "at once":
            result = asyncio.run(at_once(values, 8))
        elif how == "threads":
            result = by_threads(values, 8)
        else:
            model, _, names = how.partition(" ")
            response = ask(values, model=model, names=[names or "OUTPUT0"]).exec()
            if response.has_error():
                return pb_utils.InferenceResponse(error=response.error())
            result = taken(response)
        return pb_utils.InferenceResponse([pb_utils.Tensor("RESULT", result)])
