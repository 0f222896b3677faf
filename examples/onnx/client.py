"""Asks the model of make_model.py with Triton's own client, tensors in binary both ways.

python examples/onnx/client.py [HOST:PORT]
"""

import sys

import numpy as np
import tritonclient.http as triton

place = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:8000"

with triton.InferenceServerClient(place) as client:
    print(client.get_model_metadata("tiny")["inputs"])
    rows = np.arange(8, dtype=np.float32).reshape(2, 4)
    x = triton.InferInput("x", rows.shape, "FP32")
    x.set_data_from_numpy(rows)
    result = client.infer("tiny", [x], timeout=500_000)  # microseconds
    print(result.as_numpy("y"))
    statistics = client.get_inference_statistics("tiny")["model_stats"][0]
    print(f"{statistics['inference_count']} rows in {statistics['execution_count']} runs")
