"""Activations of TorchScript are written over their arguments where nobody can tell, else not."""

import io
import warnings

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

from xirang.backends.torch_allocations import taken_bytes  # noqa: E402
from xirang.backends.torch_script import ACTIVATIONS, MAKERS, write_over  # noqa: E402


class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(6, 24), nn.Linear(24, 6)

    def forward(self, x):
        return self.second(functional.gelu(self.first(x)))


class One(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.norm = nn.Linear(6, 6), nn.LayerNorm(6)


class Twice(One):
    def forward(self, x):
        y = self.linear(x)
        return functional.relu(y) + y


class Seen(One):
    """Through a view."""

    def forward(self, x):
        y = self.linear(x)
        seen = y.view(-1)
        return functional.silu(y).sum() + seen.sum()


class Given(One):
    """One output is what the other was made from."""

    def forward(self, x):
        y = self.linear(x)
        return functional.gelu(y), y


class Dropped(One):
    """`dropout` gives its argument itself, though its schema says otherwise."""

    def forward(self, x):
        y = self.linear(x)
        return functional.relu(functional.dropout(y, 0.5, False)) + y


class Again(One):
    """In a loop it would be computed of its own result."""

    def forward(self, x):
        y, z = self.linear(x), x
        for _ in range(3):
            z = z + functional.gelu(y)
        return z


class Anew(One):
    """In a loop, and made anew each time."""

    def forward(self, x):
        for _ in range(3):
            x = functional.gelu(self.linear(x))
        return x


class Either(One):
    def forward(self, x):
        y = self.linear(x)
        return functional.elu(y) if bool(x.sum() > 0) else functional.relu(self.norm(x))


class Own(One):
    """A weight, an input, a constant."""

    def forward(self, x):
        return (
            functional.relu(self.linear.weight)
            + functional.relu(x)
            + functional.relu(torch.ones(6))
        )


COUNTS = {Plain: 1, Twice: 0, Seen: 0, Given: 0, Dropped: 0, Again: 0, Anew: 1, Either: 1, Own: 0}


def scripted(module):
    """Twice: as it is, and as it may be rewritten."""
    saved = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.save(torch.jit.script(module.eval()), saved)
        return [torch.jit.load(io.BytesIO(saved.getvalue())).eval() for _ in range(2)]


@pytest.mark.parametrize("kind", COUNTS, ids=lambda kind: kind.__name__)
def test_it_is_done_where_nobody_can_tell(kind):
    torch.manual_seed(0)
    plain, rewritten = scripted(kind())
    assert write_over(rewritten) == COUNTS[kind]
    with torch.inference_mode():
        for sign in (1, -1, 1, -1):
            x = sign * torch.randn(6, 6).abs()
            before = x.clone()
            given, expected = rewritten(x), plain(x)
            pairs = zip(given, expected) if isinstance(given, tuple) else [(given, expected)]  # noqa: B905
            assert all(torch.equal(one, other) for one, other in pairs)
            assert torch.equal(x, before)


def test_it_takes_less_memory():
    plain, rewritten = scripted(Plain())
    write_over(rewritten)
    x = torch.randn(1000, 6)
    with torch.inference_mode():
        for _ in range(3):
            plain(x), rewritten(x)
        assert taken_bytes(lambda: rewritten(x)) <= 0.7 * taken_bytes(lambda: plain(x))


@pytest.mark.parametrize("name", sorted(ACTIVATIONS))
def test_each_activation_gives_the_same_bits_in_place(name):
    short = name.removeprefix("aten::")
    x = torch.cat([torch.randn(1001) * 4, torch.tensor([0.0, -0.0, torch.inf, -torch.inf])])
    expected = getattr(functional, short)(x)
    given = x.clone()
    getattr(torch.ops.aten, f"{short}_")(given)
    assert torch.equal(given, expected) or torch.allclose(given, expected, 0, 0, equal_nan=True)


@pytest.mark.parametrize("name", sorted(MAKERS))
def test_no_maker_gives_a_view(name):
    schemas = torch._C._jit_get_schemas_for_operator(name)
    assert schemas
    for schema in schemas:
        assert not any(returned.alias_info for returned in schema.returns if not schema.is_mutable)
