"""The paper's models as plain torch modules, one at a time: what a stack is compared with."""

import math

import pytest

torch = pytest.importorskip("torch", reason="the extra torch")


class PlainCNN(torch.nn.Module):
    """The paper's strong model, written plainly."""

    def __init__(self, shape, width, averaging):
        super().__init__()
        H, W, c = shape
        flat = 64 if averaging else 64 * (H // 4) * (W // 4)
        self.averaging = averaging
        self.conv1 = torch.nn.Conv2d(c, 32, 3, padding=1)
        self.conv2 = torch.nn.Conv2d(32, 64, 3, padding=1)
        self.fc1 = torch.nn.Linear(flat, 128)
        self.fc2 = torch.nn.Linear(128, width)

    def forward(self, x):
        x = torch.max_pool2d(torch.relu(self.conv1(x)), 2)
        x = torch.max_pool2d(torch.relu(self.conv2(x)), 2)
        x = x.mean(dim=(2, 3)) if self.averaging else x.flatten(1)
        return self.fc2(torch.relu(self.fc1(x)))


class PlainLinear(torch.nn.Module):
    """The paper's weak model, written plainly."""

    def __init__(self, shape, width):
        super().__init__()
        self.fc = torch.nn.Linear(math.prod(shape), width)

    def forward(self, x):
        return self.fc(x.flatten(1))


def plain(architecture):
    """Return the module that an architecture describes."""
    width = architecture.head.width
    if type(architecture).__name__ == "VeryWeakLinear":
        return PlainLinear(architecture.shape, width)
    return PlainCNN(architecture.shape, width, architecture.averaging)


def planes(images):
    """Scale images as the recipe says, channels first."""
    x = torch.from_numpy(images).reshape(len(images), *images.shape[1:3], -1).float()
    return ((x / 255 - 0.5) / 0.5).permute(0, 3, 1, 2)
