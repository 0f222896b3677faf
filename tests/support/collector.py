"""A collector of traces on loopback, which reads what it gets with OpenTelemetry's own schema."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
)


def read(body):
    """The spans of a request, and what is said of whoever sent it."""
    request = ExportTraceServiceRequest.FromString(body)
    (told,) = request.resource_spans
    (scope,) = told.scope_spans
    return list(scope.spans), values_of(told.resource.attributes)


def values_of(attributes):
    """Name to value."""
    return {each.key: value_of(each.value) for each in attributes}


def value_of(value):
    return getattr(value, value.WhichOneof("value"))


class OtlpCollector:
    """A server for the time of a context; keeps every span it gets."""

    def __init__(self, status=200):
        self.spans = []
        self.resources = []
        self.headers = []
        self.status = status
        collector = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                spans, resource = read(body)
                collector.spans += spans
                collector.resources.append(resource)
                collector.headers.append((self.path, dict(self.headers)))
                self.send_response(collector.status)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    @property
    def url(self):
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
