"""Small PyTorch modules that use memory in every way a plan has to get right."""

import torch
from torch import nn
from torch.nn import functional


class Encoder(nn.Module):
    """ids, mask int64 [batch, tokens] → one vector a row; attention whole or in its parts."""

    def __init__(self, *, is_whole=True, width=32, heads=4, layers=2, words=100):
        super().__init__()
        self.is_whole, self.heads = is_whole, heads
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(512, width)
        self.first = nn.LayerNorm(width)
        self.layers = nn.ModuleList(_layer(width) for _ in range(layers))

    def forward(self, ids, mask):
        rows, length = ids.shape
        x = self.first(self.words(ids) + self.places(torch.arange(length)))
        bias = (1.0 - mask[:, None, None, :].to(x.dtype)) * -1e9
        for layer in self.layers:
            q, k, v = (
                layer[name](x).view(rows, length, self.heads, -1).transpose(1, 2) for name in "qkv"
            )
            seen = self._attend(q, k, v, bias.expand(rows, 1, length, length))
            seen = seen.transpose(1, 2).reshape(rows, length, -1)
            x = layer["after"](x + layer["o"](seen))
            x = layer["last"](x + layer["down"](functional.gelu(layer["up"](x))))
        weight = mask.unsqueeze(-1).to(x.dtype)
        return (x * weight).sum(1) / weight.sum(1).clamp(min=1e-9)

    def _attend(self, q, k, v, bias):
        if self.is_whole:
            return functional.scaled_dot_product_attention(q, k, v, attn_mask=bias)
        scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
        return torch.softmax(scores + bias, -1) @ v


def _layer(width):
    linear = {name: nn.Linear(width, width) for name in "qkvo"}
    norms = {name: nn.LayerNorm(width) for name in ("after", "last")}
    return nn.ModuleDict(
        {**linear, **norms, "up": nn.Linear(width, 4 * width), "down": nn.Linear(4 * width, width)}
    )


class Pictures(nn.Module):
    """Convolutions have no way to write where they are told; the rest has."""

    def __init__(self):
        super().__init__()
        self.convolution, self.norm = nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.head = nn.Linear(4, 5)

    def forward(self, x):
        x = functional.relu(self.norm(self.convolution(x)))
        x = functional.max_pool2d(x, 2)
        return self.head(x.mean((2, 3)))


class InPlace(nn.Module):
    """Writes into what it made, through views too."""

    def forward(self, x):
        y = x * 2
        y[:, 0] += 1
        z = y.clone()
        z.relu_()
        y.mul_(z)
        return y.masked_fill_(z > 3, -1.0), z.sum(-1)


class Pieces(nn.Module):
    """Gives parts of what it made, wrote into and looked at by the shape of an input."""

    def __init__(self):
        super().__init__()
        self.register_buffer("table", torch.arange(4.0))

    def forward(self, x):
        y = x.tanh()
        y.add_(1)
        z = (x * 3).sin()
        return y[:, 0], z[:, :1].view_as(x[:, :1]), y.sum(-1), self.table.expand_as(x[:, 0])


class Turned(nn.Module):
    """The same tensor in two orders must not be written over itself."""

    def forward(self, x):
        y = x.tanh()
        z = y + y.transpose(1, 2)
        return z * z + y.flip(1)


class Squares(nn.Module):
    """x [batch, n, n]: views that cover all of a tensor, and views that do not."""

    def forward(self, x):
        y = x.exp()
        first, rest = y[:, :1], y[:, 1:]
        wide = torch.cat([rest, first], 1)
        best, which = (wide + wide.sigmoid()).max(-1)
        return {"best": best, "which": which, "wide": wide[:, 0], "same": x}


class Many(nn.Module):
    """Several results at once, numbers of other types, a choice."""

    def forward(self, x):
        top, which = torch.topk(x, 2, -1)
        halves = (x * 3).to(torch.float64).to(torch.float32)
        chosen = torch.where(halves > 0, halves, halves.abs() + 1)
        parts = torch.split(chosen, 2, -1)
        stacked = torch.stack([parts[0], parts[1]], 1)
        return top, which, stacked.amax(1), torch.softmax(chosen, 1).cumsum(-1), (x > 0).any(-1)


class Recurrent(nn.Module):
    """A whole network in one operation."""

    def __init__(self):
        super().__init__()
        self.inner = nn.GRU(4, 6, batch_first=True)

    def forward(self, x):
        states, last = self.inner(x)
        return functional.silu(states).sum(1), last[0]


class Chosen(nn.Module):
    """As many as its data say: no plan."""

    def forward(self, x):
        return x[x > 0]


class Counted(nn.Module):
    """How many are above zero, found by looking for them."""

    def forward(self, x):
        found = torch.nonzero(x > 0)[:, 0]
        return torch.zeros(x.shape[0]).index_add(0, found, torch.ones(found.shape[0]))


class Longer(nn.Module):
    """A size that is made of others."""

    def forward(self, x):
        rows, length, width = x.shape
        wide = x.repeat(1, 2, 1).reshape(rows, length * 2 * width)
        return functional.relu(wide) * 2 + wide[:, :1]
