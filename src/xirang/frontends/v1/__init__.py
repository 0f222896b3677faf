"""KServe's first protocol, and the list of models that it shares a URL with OpenAI for."""
