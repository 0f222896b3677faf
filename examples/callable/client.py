"""Asks the class of server.py over the Open Inference Protocol, with nothing but Python itself.

python client.py [URL]
"""

import json
import sys
from urllib.request import Request, urlopen

URL = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8000"
TEXTS = ["A great day, and good coffee!", "What an awful noise.", "It is."]

body = {
    "inputs": [
        {"name": "text", "datatype": "BYTES", "shape": [len(TEXTS)], "data": TEXTS},
        {"name": "scale", "datatype": "FP32", "shape": [len(TEXTS)], "data": [10.0] * len(TEXTS)},
    ],
    "parameters": {"timeout": 500_000},  # microseconds; beyond it the answer is a 504
}
request = Request(
    f"{URL}/v2/models/Scorer/infer",
    json.dumps(body).encode(),
    {"Content-Type": "application/json"},
)
with urlopen(request) as response:
    outputs = {output["name"]: output["data"] for output in json.load(response)["outputs"]}
for text, score, words in zip(TEXTS, outputs["score"], outputs["words"], strict=True):
    print(f"{score:6.2f}  {words} words  {text}")
