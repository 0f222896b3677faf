"""What the doors understand, as an OpenAPI 3.1 document."""
