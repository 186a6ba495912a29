"""The oracles and shortcuts of the set `qkv`, as far as `test_checks.py` does not hold them."""

import pytest
import torch
from torch.distributions import Categorical
from torch.nn import functional as F

import attncourse.qkv as library
from attncourse.checks.judge import CheckFailed, judge
from attncourse.checks.qkv import (
    COSINE_SCORES,
    ENTROPY,
    SOFTMAX_WITH_TEMPERATURE,
    SPARSEMAX,
    check_cosine_scores,
)


def random(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_oracles_agree_with_pytorch():
    query, key = random(2, 5, 7), random(2, 11, 7, seed=1)
    expected = F.cosine_similarity(query.unsqueeze(-2), key.unsqueeze(-3), dim=-1)
    torch.testing.assert_close(COSINE_SCORES.oracle(query, key), expected)
    torch.testing.assert_close(SOFTMAX_WITH_TEMPERATURE.oracle(query, 0.3), F.softmax(query / 0.3, dim=-1))
    weights = F.softmax(query, dim=-1)
    torch.testing.assert_close(ENTROPY.oracle(weights), Categorical(probs=weights).entropy())


@pytest.mark.parametrize("seed", range(5))
def test_sparsemax_is_the_distribution_closest_to_the_scores(seed):
    scores = random(1, 6, seed=seed)
    weights = SPARSEMAX.oracle(scores)
    torch.testing.assert_close(weights.sum(), torch.tensor(1.0, dtype=torch.float64))
    others = torch.cat([random(5000, 6, seed=seed + 100).softmax(-1), torch.eye(6, dtype=torch.float64)])
    nearby = 0.99 * weights + 0.01 * others
    for distributions in (others, nearby):
        assert ((distributions - scores).norm(dim=-1) >= (weights - scores).norm()).all()


def test_the_example_of_the_text_is_right():
    weights = SPARSEMAX.oracle(torch.tensor([[1.0, 0.8, -0.5]], dtype=torch.float64))
    torch.testing.assert_close(weights, torch.tensor([[0.6, 0.4, 0.0]], dtype=torch.float64))


@pytest.mark.parametrize("task", [COSINE_SCORES, ENTROPY])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_library_passes(task, dtype, capsys):
    judge(task, getattr(library, task.name), seed=0, dtype=dtype, refuse_shortcuts=False)
    assert f"✓ {task.name}: passed" in capsys.readouterr().out


def test_the_cosine_of_pytorch_is_refused():
    def cosine_scores(query, key):
        return F.cosine_similarity(query.unsqueeze(-2), key.unsqueeze(-3), dim=-1)

    with pytest.raises(CheckFailed, match="PyTorch's cosine_similarity does the whole task"):
        check_cosine_scores(cosine_scores)


@pytest.mark.parametrize(
    ("task", "wrong"),
    [
        (
            COSINE_SCORES,
            lambda query, key: F.normalize(query, dim=-1, p=1) @ F.normalize(key, dim=-1, p=1).mT,
        ),
        (COSINE_SCORES, lambda query, key: (F.normalize(query, dim=-1) @ F.normalize(key, dim=-1).mT).abs()),
        (SOFTMAX_WITH_TEMPERATURE, lambda scores, t: (scores / (t + 1e-2)).softmax(-1)),
        (SOFTMAX_WITH_TEMPERATURE, lambda scores, t: (scores / max(t, 0.5)).softmax(-1)),
        (ENTROPY, lambda weights: 1 - weights.square().sum(-1)),
        (ENTROPY, lambda weights: -torch.xlogy(weights, weights.detach()).sum(-1)),
        (SPARSEMAX, lambda scores, mask=None: F.softmax(2 * scores, dim=-1)),
        (
            SPARSEMAX,
            lambda scores, mask=None: SPARSEMAX.oracle(scores.detach(), *([] if mask is None else [mask])),
        ),
    ],
)
def test_a_mistake_that_nobody_listed_fails(task, wrong):
    for seed in range(3):
        with pytest.raises(CheckFailed):
            judge(task, wrong, seed=seed, dtype=torch.float32, refuse_shortcuts=False)
