"""A small transformer encoder that takes padded rows with a mask, or sequences end to end."""

import torch
from torch import nn
from torch.nn.functional import gelu, layer_norm, scaled_dot_product_attention

WIDTH, HEADS, LAYERS, VOCABULARY, POSITIONS = 32, 4, 2, 100, 128


class Layer(nn.Module):
    """Attention and two linear maps, with norms behind; `attend` says who sees whom."""

    def __init__(self):
        super().__init__()
        self.projections = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)
        self.wide, self.narrow = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, hidden, attend):
        parts = self.projections(hidden).unflatten(-1, (3, HEADS, WIDTH // HEADS))
        attended = attend(*parts.unbind(-3)).flatten(-2)
        hidden = layer_norm(hidden + self.out(attended), (WIDTH,))
        return layer_norm(hidden + self.narrow(gelu(self.wide(hidden))), (WIDTH,))


class Encoder(nn.Module):
    """Hidden states of every token, and their mean for every sequence."""

    def __init__(self, seed=0):
        super().__init__()
        torch.manual_seed(seed)
        self.words, self.places = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(POSITIONS, WIDTH)
        self.layers = nn.ModuleList([Layer() for _ in range(LAYERS)])


class PaddedEncoder(Encoder):
    """ids, mask int64 [rows, tokens]."""

    inputs = {"ids": ("INT64", ["tokens"]), "mask": ("INT64", ["tokens"])}  # noqa: RUF012
    outputs = {"hidden": ("FP32", ["tokens", WIDTH]), "mean": ("FP32", [WIDTH])}  # noqa: RUF012

    def forward(self, ids, mask):
        seen = mask.bool()[:, None, None, :]

        def attend(query, key, value):
            turned = (part.transpose(1, 2) for part in (query, key, value))
            return scaled_dot_product_attention(*turned, attn_mask=seen).transpose(1, 2)

        hidden = self.words(ids) + self.places(torch.arange(ids.shape[1]))
        for layer in self.layers:
            hidden = layer(hidden, attend)
        weights = mask.unsqueeze(-1).float()
        return {"hidden": hidden, "mean": (hidden * weights).sum(1) / weights.sum(1)}


class PackedEncoder(Encoder):
    """ids int64 [all tokens], cu_seqlens int64 [rows + 1]: no padding, no mask."""

    inputs = {"ids": ("INT64", ["tokens"])}  # noqa: RUF012
    outputs = PaddedEncoder.outputs
    is_packed = True

    def forward(self, ids, cu_seqlens):
        sizes = cu_seqlens.diff()

        def attend(query, key, value):
            sequences = zip(
                *(part.split(sizes.tolist()) for part in (query, key, value)), strict=True
            )
            return torch.cat([_attend_one(*each) for each in sequences])

        owner = torch.repeat_interleave(torch.arange(len(sizes)), sizes)
        hidden = self.words(ids) + self.places(torch.arange(len(ids)) - cu_seqlens[owner])
        for layer in self.layers:
            hidden = layer(hidden, attend)
        summed = torch.zeros(len(sizes), WIDTH).index_add_(0, owner, hidden)
        return {"hidden": hidden, "mean": summed / sizes.unsqueeze(-1)}


def _attend_one(query, key, value):
    turned = (part.transpose(0, 1) for part in (query, key, value))
    return scaled_dot_product_attention(*turned).transpose(0, 1)
