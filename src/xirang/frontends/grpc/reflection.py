"""Reflection: which services there are, and of what their messages consist."""

from typing import Any

from google.protobuf.descriptor_pb2 import FileDescriptorProto

from xirang.frontends.grpc.reading import parsed
from xirang.frontends.grpc.schema import Schema
from xirang.frontends.grpc.status import Code


class Reflection:
    """Answers what tools like grpcurl ask, one response for each request."""

    def __init__(self, schema: Schema, package: str) -> None:
        """Tell of a schema.

        Args:
            schema: It holds the messages of reflection, too.
            package: Theirs.
        """
        self._services = schema.services
        self._pool: Any = schema.pool
        self._request = schema.message(f"{package}.ServerReflectionRequest")
        self._response = schema.message(f"{package}.ServerReflectionResponse")

    def __call__(self, message: bytes) -> bytes:
        """One response."""
        request = parsed(self._request, message)
        response = self._response(valid_host=request.host, original_request=request)
        asked = request.WhichOneof("message_request")
        if asked == "list_services":
            services = response.list_services_response.service
            for name in self._services:
                services.add(name=name)
        else:
            self._describe(request, asked, response)
        answer: bytes = response.SerializeToString()
        return answer

    def _describe(self, request: Any, asked: str | None, response: Any) -> None:
        try:
            match asked:
                case "file_by_filename":
                    file = self._pool.FindFileByName(request.file_by_filename)
                case "file_containing_symbol":
                    file = self._file_of(request.file_containing_symbol)
                case _:
                    file = None  # proto3 has no extensions
        except KeyError:
            file = None
        if file is None:
            response.error_response.error_code = Code.NOT_FOUND
            response.error_response.error_message = "there is no such file or symbol"
            return
        proto = FileDescriptorProto()
        file.CopyToProto(proto)
        response.file_descriptor_response.file_descriptor_proto.append(proto.SerializeToString())

    def _file_of(self, symbol: str) -> Any:
        """The file of a symbol; procedures are found by their service."""
        try:
            return self._pool.FindFileContainingSymbol(symbol)
        except KeyError:
            return self._pool.FindFileContainingSymbol(symbol.rpartition(".")[0])
