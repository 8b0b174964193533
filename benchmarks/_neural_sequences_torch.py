"""The networks of `_neural_sequences` in PyTorch, with its fused LSTM and attention."""

import torch
from torch import nn


class Recurrent(nn.Module):
    """An LSTM over a batch of sequences and a linear head on the last output."""

    def __init__(self, inputs, hidden):
        super().__init__()
        self.lstm, self.head = nn.LSTM(inputs, hidden, batch_first=True), nn.Linear(hidden, 1)

    def forward(self, x):
        return self.head(self.lstm(x)[0][:, -1])


class Block(nn.Module):
    """Attention and a feed-forward layer, normalised before."""

    def __init__(self, dim, heads, hidden):
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList([nn.LayerNorm(dim), nn.LayerNorm(dim)])
        self.project, self.merge = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.forward_layer = nn.Sequential(nn.Linear(dim, hidden), nn.GELU(), nn.Linear(hidden, dim))

    def forward(self, x):
        batch, steps, dim = x.shape
        rows = self.project(self.norms[0](x)).view(batch, steps, 3, self.heads, dim // self.heads)
        look = nn.functional.scaled_dot_product_attention(*rows.permute(2, 0, 3, 1, 4), is_causal=True)
        x = x + self.merge(look.transpose(1, 2).reshape(batch, steps, dim))
        return x + self.forward_layer(self.norms[1](x))


class Language(nn.Module):
    """A causal language model with learned places."""

    def __init__(self, vocabulary, steps, dim, heads, hidden, blocks):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, dim)
        self.places = nn.Parameter(0.02 * torch.randn(steps, dim))
        self.blocks = nn.ModuleList([Block(dim, heads, hidden) for _ in range(blocks)])
        self.norm, self.head = nn.LayerNorm(dim), nn.Linear(dim, vocabulary)

    def forward(self, tokens):
        x = self.embedding(tokens) + self.places
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))
