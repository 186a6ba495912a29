"""The device to compute on. Chapters and training ask here; the mathematics follows its inputs."""

import torch


def pick_device() -> torch.device:
    """Chooses the fastest device that PyTorch can use here: ``cuda``, else ``mps``, else ``cpu``."""
    if torch.cuda.is_available():
        return torch.device("cuda")
    if torch.backends.mps.is_available():
        return torch.device("mps")
    return torch.device("cpu")
