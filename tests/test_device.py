import pytest
import torch

from attncourse.device import pick_device


@pytest.mark.parametrize(
    ("cuda", "mps", "picked"),
    [(True, True, "cuda"), (True, False, "cuda"), (False, True, "mps"), (False, False, "cpu")],
)
def test_pick_device_prefers_cuda_then_mps_then_cpu(monkeypatch, cuda, mps, picked):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)
    assert pick_device() == torch.device(picked)


def test_the_picked_device_computes():
    ones = torch.ones(3, device=pick_device())
    assert (ones @ ones).item() == 3
