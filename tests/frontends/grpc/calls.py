"""Requests as a client writes them, for the tests of the gRPC services."""

from tritonclient.grpc import service_pb2 as pb


def wish(identity="", model="echo", version="", raw=b"\0\0\x80?\0\0\0@", **parameters):
    message = pb.ModelInferRequest(
        model_name=model, model_version=version, id=identity, raw_input_contents=[raw]
    )
    message.inputs.add(name="x", datatype="FP32", shape=[1, 2])
    for name, value in parameters.items():
        message.parameters[name].int64_param = value
    return message
