"""Exports a tiny PyTorch model: y = relu(x · w), rows of 4 to rows of 2.

python examples/torch/make_model.py tiny.pt2
xirang serve tiny.pt2
python examples/onnx/client.py      # in another terminal: the protocol is the same
"""

import sys

import torch

path = sys.argv[1] if len(sys.argv) > 1 else "tiny.pt2"


class Tiny(torch.nn.Module):
    """A dict of outputs gives them their names."""

    def __init__(self):
        """The weights of examples/onnx/make_model.py."""
        super().__init__()
        self.weights = torch.nn.Parameter(torch.tensor([[1.0, 0], [0, 1], [-1, 1], [2, -2]]))

    def forward(self, x):
        """The parameter's name is the input's."""
        return {"y": torch.relu(x @ self.weights)}


# The first axis has a name and a range: xirang stacks the rows of many requests along it.
batch = torch.export.Dim("batch", min=1, max=1024)
program = torch.export.export(Tiny().eval(), (torch.ones(2, 4),), dynamic_shapes={"x": {0: batch}})
torch.export.save(program, path)
print(f"wrote {path}")
