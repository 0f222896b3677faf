"""The gRPC door: the same requests and answers as over HTTP, as protobuf messages."""
