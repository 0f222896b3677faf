"""Asks for embeddings with OpenAI's own client.

xirang fetch && xirang serve models/all-MiniLM-L6-v2
python examples/openai_client.py [URL]      # in another terminal
"""

import sys

import numpy as np
from openai import OpenAI

URL = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8000"
TEXTS = ["A cat is sitting on the mat.", "A kitten rests on a rug.", "Rates were raised again."]

with OpenAI(base_url=f"{URL}/v1", api_key="not needed", timeout=10) as client:
    model = client.models.list().data[0].id
    response = client.embeddings.create(model=model, input=TEXTS)

vectors = np.array([entry.embedding for entry in response.data])
print(f"{model}: {vectors.shape[1]} dimensions, {response.usage.total_tokens} tokens")
for text, similarity in zip(TEXTS, vectors @ vectors[0], strict=True):
    print(f"{similarity:5.2f}  {text}")
