"""The reversal layer against what it should do, written out by hand in float64."""

from __future__ import annotations

import copy
import io
import pickle

import pytest
import torch
from torch import Tensor, nn
from torch.autograd.gradcheck import GradcheckError
from torch.utils.checkpoint import checkpoint

from revgrad.errors import ExportError
from revgrad.reversal import NOT_EXPORTED, GradientReversal, reverse_gradient

FACTORS = [1.0, 0.3, 0, 2, torch.tensor(0.3, dtype=torch.float64), torch.tensor(0.0)]


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def loss(z: Tensor) -> Tensor:
    """A loss with a gradient and a curvature one can write down: Σ z³."""
    return z.pow(3).sum()


# torch's compiler instantiates Function itself, and torch warns of that
compiling = pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")


@pytest.fixture
def fresh_compiler():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.mark.parametrize("factor", FACTORS)
def test_forward_is_the_identity_and_backward_is_minus_lambda(factor):
    x = draw(4, 3).requires_grad_()
    y = reverse_gradient(x, factor)
    assert torch.equal(y, x)
    assert y.dtype == x.dtype
    (gradient,) = torch.autograd.grad(loss(y), x)
    torch.testing.assert_close(gradient, -float(factor) * 3 * x.detach() ** 2, rtol=1e-15, atol=0)


def test_lambda_is_one_by_default():
    x = draw(3).requires_grad_()
    (gradient,) = torch.autograd.grad(loss(reverse_gradient(x)), x)
    assert torch.equal(gradient, -3 * x.detach() ** 2)


def test_lambda_gets_no_gradient():
    x, factor = draw(3).requires_grad_(), torch.tensor(0.5, requires_grad=True)
    loss(reverse_gradient(x, factor)).backward()
    assert x.grad is not None
    assert factor.grad is None


def test_what_lies_behind_the_layer_gets_its_own_gradient():
    x, weight = draw(4, 3).requires_grad_(), draw(3, 2, seed=1).requires_grad_()
    reversed_ = torch.autograd.grad(loss(reverse_gradient(x, 0.3) @ weight), (x, weight))
    plain = torch.autograd.grad(loss(x @ weight), (x, weight))
    torch.testing.assert_close(reversed_[0], -0.3 * plain[0], rtol=1e-14, atol=0)
    assert torch.equal(reversed_[1], plain[1])


def test_two_layers_multiply():
    x = draw(3).requires_grad_()
    (gradient,) = torch.autograd.grad(loss(reverse_gradient(reverse_gradient(x, 0.5), 3.0)), x)
    torch.testing.assert_close(gradient, 1.5 * 3 * x.detach() ** 2, rtol=1e-14, atol=0)


def test_gradcheck_fails_by_design():
    x = draw(3).requires_grad_()
    with pytest.raises(GradcheckError, match="Jacobian mismatch"):
        torch.autograd.gradcheck(lambda z: reverse_gradient(z, 1.0), x)


def test_an_in_place_operation_behind_the_layer_leaves_the_features_alone():
    x = draw(4, 3).requires_grad_()
    features = x * 1.0
    before = features.detach().clone()
    y = torch.relu_(reverse_gradient(features, 0.3))
    assert torch.equal(features, before)
    (gradient,) = torch.autograd.grad(loss(y), x)
    expected = -0.3 * 3 * before.clamp(min=0) ** 2
    torch.testing.assert_close(gradient, expected, rtol=1e-14, atol=0)
    with torch.no_grad():
        reverse_gradient(features).zero_()
    assert torch.equal(features, before)


@pytest.mark.parametrize("factor", [0.3, torch.tensor(0.3, dtype=torch.float64)])
def test_double_backward(factor):
    # g = −λ·3x², and g is differentiated as it stands: dΣg/dx through the layer again,
    # −λ·(d/dy Σ −λ·3y²) = λ²·6x
    x = draw(5).requires_grad_()
    (first,) = torch.autograd.grad(loss(reverse_gradient(x, factor)), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    torch.testing.assert_close(second, 0.3**2 * 6 * x.detach(), rtol=1e-14, atol=0)


@pytest.mark.parametrize("factor", [0.3, torch.tensor(0.3, dtype=torch.float64)])
def test_functional_gradients_one_by_one_and_per_sample(factor):
    x = draw(6, 4)
    gradient = torch.func.grad(lambda z: loss(reverse_gradient(z, factor)))
    expected = -0.3 * 3 * x**2
    torch.testing.assert_close(gradient(x), expected, rtol=1e-14, atol=0)
    torch.testing.assert_close(torch.func.vmap(gradient)(x), expected, rtol=1e-14, atol=0)
    _, pull = torch.func.vjp(lambda z: reverse_gradient(z, factor), x)
    torch.testing.assert_close(pull(expected)[0], -0.3 * expected, rtol=1e-14, atol=0)


def test_a_lambda_for_each_sample_under_vmap():
    x, factors = draw(3, 4), torch.tensor([0.0, 0.5, 2.0], dtype=torch.float64)
    gradient = torch.func.vmap(torch.func.grad(lambda z, f: loss(reverse_gradient(z, f))))
    expected = -factors[:, None] * 3 * x**2
    torch.testing.assert_close(gradient(x, factors), expected, rtol=1e-14, atol=0)


def test_autocast_reverses_in_the_type_that_flows():
    layer, x = nn.Linear(3, 2), draw(4, 3).float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = reverse_gradient(layer(x), torch.tensor(0.5))
    assert y.dtype == torch.bfloat16
    y.sum().backward()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        plain = torch.autograd.grad(layer(x).sum(), layer.weight)[0]
    assert layer.weight.grad.dtype == torch.float32
    assert torch.equal(layer.weight.grad, -0.5 * plain)


def test_a_float64_lambda_does_not_change_the_gradients_type():
    x = draw(3).float().requires_grad_()
    loss(reverse_gradient(x, torch.tensor(0.5, dtype=torch.float64))).backward()
    assert x.grad.dtype == torch.float32


@pytest.mark.parametrize("reentrant", [False, True])
def test_activation_checkpointing(reentrant):
    x, weight = draw(4, 3).requires_grad_(), draw(3, 3, seed=1).requires_grad_()

    def run(z: Tensor) -> Tensor:
        return torch.tanh(reverse_gradient(z @ weight, 0.3))

    plain = torch.autograd.grad(loss(run(x)), (x, weight))
    loss(checkpoint(run, x, use_reentrant=reentrant)).backward()
    assert torch.equal(x.grad, plain[0])
    assert torch.equal(weight.grad, plain[1])
    by_hand = torch.autograd.grad(loss(torch.tanh(x @ weight)), x)[0]
    torch.testing.assert_close(plain[0], -0.3 * by_hand, rtol=1e-13, atol=1e-15)


@compiling
@pytest.mark.usefixtures("fresh_compiler")
def test_one_compiled_graph_serves_every_lambda():
    from torch._dynamo.testing import CompileCounterWithBackend

    counter = CompileCounterWithBackend("aot_eager")

    @torch.compile(backend=counter, fullgraph=True)
    def step(x: Tensor, factor: Tensor) -> Tensor:
        return loss(reverse_gradient(x, factor))

    # float32: what torch makes of a number. A float64 one makes torch try its first graph twice
    for value in (0.0, 0.125, 0.5, 1.0):
        x = draw(4, 3).requires_grad_()
        step(x, torch.tensor(value)).backward()
        torch.testing.assert_close(x.grad, -value * 3 * x.detach() ** 2, rtol=1e-14, atol=0)
    assert counter.frame_count == 1


@compiling
@pytest.mark.usefixtures("fresh_compiler")
def test_one_compiled_graph_serves_the_layer_as_its_factor_is_filled():
    from torch._dynamo.testing import CompileCounterWithBackend

    counter = CompileCounterWithBackend("aot_eager")
    layer = GradientReversal(torch.tensor(0.0))
    step = torch.compile(lambda x: loss(layer(x)), backend=counter, fullgraph=True)
    for value in (0.0, 0.125, 0.5):
        layer.factor.fill_(value)
        x = draw(4, 3).requires_grad_()
        step(x).backward()
        torch.testing.assert_close(x.grad, -value * 3 * x.detach() ** 2, rtol=1e-14, atol=0)
    assert counter.frame_count == 1


@compiling
@pytest.mark.usefixtures("fresh_compiler")
def test_a_compiled_number_is_right_too():
    step = torch.compile(
        lambda x, factor: loss(reverse_gradient(x, factor)), backend="aot_eager", fullgraph=True
    )
    for value in (0.25, 0.75):
        x = draw(4).requires_grad_()
        step(x, value).backward()
        torch.testing.assert_close(x.grad, -value * 3 * x.detach() ** 2, rtol=1e-14, atol=0)


def test_torch_export_is_refused_in_one_sentence():
    module = nn.Sequential(nn.Linear(3, 2), GradientReversal()).eval()
    with pytest.raises(ExportError) as refusal:
        torch.export.export(module, (torch.zeros(2, 3),))
    assert str(refusal.value) == NOT_EXPORTED
    assert "\n" not in NOT_EXPORTED


@pytest.mark.usefixtures("fresh_compiler")
def test_strict_torch_export_is_refused_and_the_sentence_is_in_what_it_says():
    module = nn.Sequential(nn.Linear(3, 2), GradientReversal()).eval()
    with pytest.raises(Exception, match="gradient reversal can't be exported"):
        torch.export.export(module, (torch.zeros(2, 3),), strict=True)


@pytest.mark.filterwarnings("ignore:.*torch.jit.trace:DeprecationWarning")
def test_torch_jit_trace_is_refused():
    module = nn.Sequential(nn.Linear(3, 2), GradientReversal()).eval()
    with pytest.raises(ExportError, match="gradient reversal can't be exported"):
        torch.jit.trace(module, torch.zeros(2, 3))


@pytest.mark.parametrize("factor", [0.3, torch.tensor(0.3)])
def test_the_layer_has_no_state(factor):
    layer = GradientReversal(factor)
    assert layer.state_dict() == {}
    assert list(layer.parameters()) == []
    assert list(layer.buffers()) == []
    assert repr(layer) == "GradientReversal(factor=0.3)"


def test_running_the_layer_advances_nothing():
    layer = GradientReversal(0.3)
    x = draw(3).requires_grad_()
    before = dict(vars(layer))
    for _ in range(5):
        layer.train()(x)
        layer.eval()(x.detach())
    layer.train()
    assert vars(layer) == before
    (gradient,) = torch.autograd.grad(loss(layer(x)), x)
    torch.testing.assert_close(gradient, -0.3 * 3 * x.detach() ** 2, rtol=1e-14, atol=0)


def test_evaluation_mode_reverses_too():
    x = draw(3).requires_grad_()
    (gradient,) = torch.autograd.grad(loss(GradientReversal(2.0).eval()(x)), x)
    assert torch.equal(gradient, -2.0 * 3 * x.detach() ** 2)


def saved_and_loaded(layer: nn.Module) -> nn.Module:
    buffer = io.BytesIO()
    torch.save(layer, buffer)
    buffer.seek(0)
    return torch.load(buffer, weights_only=False)


@pytest.mark.parametrize(
    "duplicate", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m)), saved_and_loaded]
)
@pytest.mark.parametrize("factor", [0.3, torch.tensor(0.3, dtype=torch.float64)])
def test_a_copy_works_and_has_a_factor_of_its_own(duplicate, factor):
    layer = GradientReversal(copy.deepcopy(factor))
    twin = duplicate(layer)
    if isinstance(layer.factor, Tensor):
        layer.factor.fill_(9.0)
    else:
        layer.factor = 9.0
    x = draw(3).requires_grad_()
    (gradient,) = torch.autograd.grad(loss(twin(x)), x)
    torch.testing.assert_close(gradient, -0.3 * 3 * x.detach() ** 2, rtol=1e-14, atol=0)


def test_an_empty_batch_and_inputs_without_gradient_pass():
    assert reverse_gradient(torch.zeros(0, 3)).shape == (0, 3)
    assert not reverse_gradient(draw(3)).requires_grad
    x = draw(0, 3).requires_grad_()
    (gradient,) = torch.autograd.grad(loss(reverse_gradient(x, 0.3)), x)
    assert gradient.shape == (0, 3)


def test_the_memory_format_is_kept():
    x = draw(2, 3, 4, 4).contiguous(memory_format=torch.channels_last)
    assert reverse_gradient(x).is_contiguous(memory_format=torch.channels_last)
