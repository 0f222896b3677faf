"""HTTP/2 as far as a server of gRPC needs it: bytes in, events out, events in, bytes out."""
