#!/usr/bin/env python3
"""Reference checkpoints of the recurrent families, made by PyTorch: nn.RNN, nn.GRU and nn.LSTM as language models, as tagger and
as classifier (both ways, padded rows), Bengio's network over a fixed window, a pair of LSTMs, and gated units with additive attention. What they compute stands in reference.json, as make_reference.py writes it.

    pip install torch safetensors
    python make_recurrent_reference.py ../../../fixtures/tiny
"""
import json, pathlib, sys
import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

V, C, LAYERS, LABELS, WINDOW = 41, 16, 2, 5, 3


class Net(nn.Module):
    def __init__(self, cell, task):
        super().__init__()
        self.task, self.cell, both = task, cell, task != "language"
        self.embedding = nn.Embedding(V, C)
        kind = {"rnn": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}[cell]
        setattr(self, cell, kind(C, C // 2 if both else C, LAYERS, batch_first=True, bidirectional=both))
        self.output = nn.Linear(C, LABELS if both else V)

    def forward(self, ids, mask):
        x, net = self.embedding(ids), getattr(self, self.cell)
        if self.task == "language":
            return self.output(net(x)[0])
        packed = pack_padded_sequence(x, mask.sum(1), batch_first=True, enforce_sorted=False)
        y, _ = pad_packed_sequence(net(packed)[0], batch_first=True, total_length=ids.shape[1])
        return self.output(y[:, 0] if self.task == "classify" else y)

    def loss(self, ids, mask, labels):
        logits = self(ids, mask)
        if self.task == "language":
            return nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())
        return nn.functional.cross_entropy(logits.reshape(-1, LABELS), labels.flatten(), ignore_index=-100)


class Nplm(nn.Module):
    """The last WINDOW vectors one behind the other, one layer, tanh; zeros stand before the first."""

    def __init__(self):
        super().__init__()
        self.embedding, self.hidden, self.output = nn.Embedding(V, C), nn.Linear(WINDOW * C, C), nn.Linear(C, V)

    def forward(self, ids):
        x = nn.functional.pad(self.embedding(ids), (0, 0, WINDOW - 1, 0))
        windows = [x[:, k:k + ids.shape[1]] for k in range(WINDOW)]
        return self.output(torch.tanh(self.hidden(torch.cat(windows, 2))))

    def loss(self, ids):
        return nn.functional.cross_entropy(self(ids)[:, :-1].flatten(0, 1), ids[:, 1:].flatten())


def read(net, x, mask):
    """Outputs and last state over padded rows."""
    y, state = net(pack_padded_sequence(x, mask.sum(1), batch_first=True, enforce_sorted=False))
    return pad_packed_sequence(y, batch_first=True, total_length=x.shape[1])[0], state


class Pair(nn.Module):
    def loss(self, ids, mask, target, labels):
        return nn.functional.cross_entropy(self(ids, mask, target).flatten(0, 1), labels.flatten())


class Seq2Seq(Pair):
    """The state behind the source is the decoder's first."""

    def __init__(self):
        super().__init__()
        self.embedding, self.output = nn.Embedding(V, C), nn.Linear(C, V)
        self.encoder, self.decoder = nn.Module(), nn.Module()
        self.encoder.lstm, self.decoder.lstm = [nn.LSTM(C, C, LAYERS, batch_first=True) for _ in range(2)]

    def forward(self, ids, mask, target):
        _, state = read(self.encoder.lstm, self.embedding(ids), mask)
        return self.output(self.decoder.lstm(self.embedding(target), state)[0])


class Bahdanau(Pair):
    """Before each step the state asks which part of the source matters now."""

    def __init__(self):
        super().__init__()
        self.embedding, self.output = nn.Embedding(V, C), nn.Linear(C, V)
        self.encoder, self.decoder = nn.Module(), nn.Module()
        self.encoder.gru = nn.GRU(C, C // 2, LAYERS, batch_first=True, bidirectional=True)
        d, linear = self.decoder, lambda a, b: nn.Linear(a, b, bias=False)
        d.start, d.cell, d.context, d.readout = nn.Linear(C // 2, C), nn.GRUCell(C, C), linear(C, 3 * C), nn.Linear(2 * C, C)
        d.attention = nn.Module()
        d.attention.query, d.attention.key, d.attention.score = linear(C, C), linear(C, C), linear(C, 1)
        d.gru = nn.GRU(C, C, LAYERS - 1, batch_first=True)

    def forward(self, ids, mask, target):
        d, x = self.decoder, self.embedding(target)
        h, _ = read(self.encoder.gru, self.embedding(ids), mask)
        s, keys, states, contexts = torch.tanh(d.start(h[:, 0, C // 2:])), d.attention.key(h), [], []
        for t in range(x.shape[1]):
            scores = d.attention.score(torch.tanh(d.attention.query(s)[:, None] + keys))[..., 0]
            c = (scores.masked_fill(mask == 0, -torch.inf).softmax(1)[:, None] @ h)[:, 0]
            gx = x[:, t] @ d.cell.weight_ih.T + d.cell.bias_ih + d.context(c)
            gh = s @ d.cell.weight_hh.T + d.cell.bias_hh
            (rx, zx, nx), (rh, zh, nh) = gx.chunk(3, 1), gh.chunk(3, 1)
            z = torch.sigmoid(zx + zh)
            s = (1 - z) * torch.tanh(nx + torch.sigmoid(rx + rh) * nh) + z * s
            states.append(s)
            contexts.append(c)
        top, _ = d.gru(torch.stack(states, 1))
        return self.output(torch.tanh(d.readout(torch.cat([top, torch.stack(contexts, 1)], 2))))


def make_pair(folder, net, word):
    torch.manual_seed(0)
    net = net()
    for p in net.parameters():
        nn.init.normal_(p, 0, 0.35)
    ids, target, labels = [torch.randint(3, V, shape) for shape in [(3, 7), (3, 5), (3, 5)]]
    mask = torch.tensor([[1] * n + [0] * (7 - n) for n in [7, 4, 6]])
    config = {"architectures": [f"{word}ForConditionalGeneration"], "dropout": 0.0, "dtype": "float32", "hidden_size": C,
              "is_encoder_decoder": True, "model_type": f"qkv-{word.lower()}", "num_layers": LAYERS, "tie_word_embeddings": False,
              "vocab_size": V}
    inputs = {"input_ids": ids.tolist(), "attention_mask": mask.tolist(), "decoder_input_ids": target.tolist()}
    write(folder, net, config, inputs, labels, lambda: net(ids, mask, target), lambda: net.loss(ids, mask, target, labels))


def make_nplm(folder):
    torch.manual_seed(0)
    net = Nplm()
    for p in net.parameters():
        nn.init.normal_(p, 0, 0.35)
    ids = torch.randint(3, V, (3, 7))
    config = {"architectures": ["NplmForCausalLM"], "dropout": 0.0, "dtype": "float32", "hidden_size": C, "model_type": "qkv-nplm",
              "num_layers": 1, "tie_word_embeddings": False, "vocab_size": V, "window": WINDOW}
    inputs = {"input_ids": ids.tolist(), "attention_mask": torch.ones_like(ids).tolist()}
    write(folder, net, config, inputs, ids, lambda: net(ids), lambda: net.loss(ids))


def make(folder, cell, task):
    torch.manual_seed(0)
    net = Net(cell, task)
    for p in net.parameters():
        nn.init.normal_(p, 0, 0.35)
    ids = torch.randint(3, V, (3, 7))
    lengths = [7, 7, 7] if task == "language" else [7, 4, 6]
    mask = torch.tensor([[1] * n + [0] * (7 - n) for n in lengths])
    labels = {"language": lambda: ids, "classify": lambda: torch.tensor([0, 3, 4])}.get(
        task, lambda: torch.randint(0, LABELS, (3, 7)).masked_fill(mask == 0, -100))()
    word = {"language": "CausalLM", "classify": "SequenceClassification", "tag": "TokenClassification"}[task]
    config = {"architectures": [f"{cell.capitalize()}For{word}"], "bidirectional": task != "language", "dropout": 0.0, "dtype": "float32",
              "hidden_size": C, "model_type": f"qkv-{cell}", "num_layers": LAYERS, "vocab_size": V}
    if task == "language":
        config["tie_word_embeddings"] = False
    else:
        config["id2label"] = {str(i): f"LABEL_{i}" for i in range(LABELS)}
        config["label2id"] = {f"LABEL_{i}": i for i in range(LABELS)}
    inputs = {"input_ids": ids.tolist(), "attention_mask": mask.tolist()}
    write(folder, net, config, inputs, labels, lambda: net(ids, mask), lambda: net.loss(ids, mask, labels))


def write(folder, net, config, inputs, labels, forward, compute):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
    save_file({n: p.detach().clone() for n, p in net.named_parameters()}, folder / "model.safetensors", metadata={"format": "pt"})
    outputs = {"logits": forward().tolist()}
    opt = torch.optim.AdamW(net.parameters(), lr=1e-3, betas=(0.9, 0.98), eps=1e-8, weight_decay=0.01)
    losses, norms = [], {}
    for step in range(5):
        opt.zero_grad()
        loss = compute()
        loss.backward()
        if step == 0:
            norms = {n: p.grad.norm().item() for n, p in net.named_parameters()}
        opt.step()
        losses.append(loss.item())
    reference = {"family": config["model_type"], "seed": 0, "inputs": inputs,
                 "labels": {"labels": labels.tolist()}, "outputs": outputs,
                 "train": {"optimizer": "AdamW lr=1e-3 betas=(0.9,0.98) eps=1e-8 weight_decay=0.01 on every parameter",
                           "losses": losses, "grad_norms": norms}}
    (folder / "reference.json").write_text(json.dumps(reference))
    print(f"{folder.name:18} loss {losses[0]:.4f} -> {losses[-1]:.4f}")


root = pathlib.Path(sys.argv[1])
for cell in ["rnn", "gru", "lstm"]:
    make(root / f"qkv-{cell}", cell, "language")
make(root / "qkv-gru-classify", "gru", "classify")
make(root / "qkv-lstm-tag", "lstm", "tag")
make_pair(root / "qkv-seq2seq", Seq2Seq, "Seq2Seq")
make_pair(root / "qkv-bahdanau", Bahdanau, "Bahdanau")
make_nplm(root / "qkv-nplm")
