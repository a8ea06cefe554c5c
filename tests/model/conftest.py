"""Tensors this small are slowed down, not sped up, by a second thread."""

import torch

torch.set_num_threads(1)
