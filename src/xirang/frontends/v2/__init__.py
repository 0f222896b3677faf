"""The Open Inference Protocol v2 over HTTP, with the extensions that Triton has."""
