"""PyTorch models that no graph is had of, and what they are fed: their allocations are recorded."""

from random import Random

import numpy as np
import torch
from torch import nn
from torch.nn import functional


class Block(nn.Module):
    """Two convolutions, and around them what came in."""

    def __init__(self, width, wider, stride):
        super().__init__()
        self.first = nn.Conv2d(width, wider, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(wider, wider, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm2d(wider) for _ in range(2))
        self.around = (
            nn.Conv2d(width, wider, 1, stride, bias=False) if stride > 1 else nn.Identity()
        )

    def forward(self, x):
        y = functional.relu(self.norms[0](self.first(x)))
        return functional.relu(self.norms[1](self.second(y)) + self.around(x))


class Residual(nn.Module):
    """x float32 [batch, 3, side, side] → ten scores a row, as a small ResNet."""

    def __init__(self, width=16, blocks=3):
        super().__init__()
        self.stem, self.norm = nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width)
        widths = [width << k for k in range(blocks)]
        pairs = zip([width, *widths], widths, strict=False)
        self.blocks = nn.Sequential(
            *(Block(one, other, 1 if one == other else 2) for one, other in pairs)
        )
        self.head = nn.Linear(widths[-1], 10)

    def forward(self, x):
        x = functional.max_pool2d(functional.relu(self.norm(self.stem(x))), 3, 2, 1)
        return self.head(self.blocks(x).mean((2, 3)))


class Masked(nn.Module):
    """x [batch, tokens, 8], mask [batch, tokens] → the same; it leaves a mask of ones alone."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x, mask):
        y = self.linear(x)
        if not bool(mask.all()):
            weight = mask.unsqueeze(-1).to(y.dtype)
            y = y * weight + (1 - weight)
        return functional.gelu(y) + x


class Caching(nn.Module):
    """Keeps what it made for lengths that it has seen, as models keep their angles."""

    def __init__(self):
        super().__init__()
        self.seen = {}

    def forward(self, x):
        length = x.shape[1]
        if length not in self.seen:
            self.seen[length] = torch.arange(length * 4).reshape(length, 4).to(x.dtype).cos()
        return x * self.seen[length] + (x + 1).tanh()


class Remembering(nn.Module):
    """Gives what it made of the last request along, and keeps what it makes of this one."""

    def __init__(self):
        super().__init__()
        self.last = torch.zeros(4)

    def forward(self, x):
        made = (x * 2).sum((0, 1)).tanh()
        last, self.last = self.last, made
        return (x + 1).exp() * 0.5 + made, last.expand(x.shape[0], 4).clone()


class Raising(nn.Module):
    """Fails in the middle of what it does if a number is negative."""

    def forward(self, x):
        y = x * 2
        z = (y + 1).exp()
        if bool((x < -5).any()):
            raise ValueError(f"cannot take that, having made {z.shape}")
        return y + z


class Drawn(nn.Module):
    """Layers in an order drawn by lot, convolutions too, over tensors [rows, length, 8]."""

    def __init__(self, seed):
        super().__init__()
        self.seed = seed
        self.linear, self.norm = nn.Linear(8, 8), nn.LayerNorm(8)
        self.convolution = nn.Conv1d(8, 8, 3, padding=1)

    def forward(self, x):
        dice, made = Random(self.seed), [x]
        for _ in range(12):
            made.append(self._next(dice, dice.choice(made), dice.choice(made)))
        return made[-1], dice.choice(made).sum(1)

    def _next(self, dice, one, other):  # noqa: PLR0911 (one way each)
        match dice.randrange(8):
            case 0:
                return self.convolution(one.transpose(1, 2)).transpose(1, 2)
            case 1:
                return functional.gelu(self.linear(one))
            case 2:
                return self.norm(one + other)
            case 3:
                return torch.softmax(one @ other.transpose(1, 2), -1) @ other
            case 4:
                return torch.cat([one[:, ::2], other[:, 1::2]], 1).clamp(-3, 3)
            case 5:
                written = one.clone()
                return written.mul_(0.5).add_(other)
            case 6:
                return functional.scaled_dot_product_attention(one, other, other)
            case _:
                return torch.where(one > 0, one, other)


def declared(module, inputs, outputs):
    """A module that says what it takes and gives."""
    module.inputs, module.outputs = inputs, outputs
    return module


def pictures(dice, rows, side):
    """For `Residual`."""
    return {"x": dice.standard_normal((rows, 3, side, side), np.float32)}


def tokens(width):
    """For those that take x [batch, tokens, width]."""

    def make(dice, rows, length):
        return {"x": dice.standard_normal((rows, length, width), np.float32)}

    return make


def tokens_and_mask(dice, rows, length):
    """For `Masked`; the last position is padded."""
    mask = np.ones((rows, length), np.int64)
    mask[0, -1] = 0
    return {"x": dice.standard_normal((rows, length, 8), np.float32), "mask": mask}
