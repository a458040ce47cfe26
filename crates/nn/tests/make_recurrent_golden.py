#!/usr/bin/env python3
"""What PyTorch's nn.RNN, nn.GRU and nn.LSTM compute: outputs, last states and every gradient, for recurrent_golden.rs.

    pip install torch
    python make_recurrent_golden.py > data/recurrent.json

Parameters, in PyTorch's order, are 0.5·sin 0, 0.5·sin 1, …; the input is cos 0, cos 1, …; the loss is Σ y² + Σ h.
"""
import json, math
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

B, T, C, H = 3, 4, 2, 3
cases = []
for cell in ["RNN", "GRU", "LSTM"]:
    for layers in [1, 2]:
        for both in [False, True]:
            for lengths in [[4, 4, 4], [4, 1, 3]]:
                net, at = getattr(nn, cell)(C, H, layers, batch_first=True, bidirectional=both), 0
                for p in net.parameters():
                    p.data = torch.tensor([0.5 * math.sin(at + i) for i in range(p.numel())]).view(p.shape)
                    at += p.numel()
                x = torch.tensor([math.cos(i) for i in range(B * T * C)]).view(B, T, C).requires_grad_()
                y, state = net(pack_padded_sequence(x, torch.tensor(lengths), batch_first=True, enforce_sorted=False))
                y, _ = pad_packed_sequence(y, batch_first=True, total_length=T)
                state = torch.cat(state, 2) if cell == "LSTM" else state
                (y.square().sum() + state.sum()).backward()
                flat = lambda t: [float(f"{v:.7g}") for v in t.detach().flatten().tolist()]
                cases.append({"cell": cell, "layers": layers, "both": both, "lengths": lengths, "y": flat(y), "state": flat(state),
                              "dx": flat(x.grad), "gradients": [flat(p.grad) for p in net.parameters()]})
print(json.dumps(cases))
