#!/usr/bin/env python3
"""Record what transformers (eager) and Captum say about the tiny checkpoints in fixtures/tiny.

    pip install torch transformers captum safetensors
    python make.py ../../../../fixtures/tiny .

For each model one JSON file: the ids, the attention maps, the logit lens (hidden states through the final norm and the
head), and Captum's integrated gradients (64 steps of Gauss-Legendre, from the average of all tokens' vectors, for pictures
from 0) and input x gradient of the score that the model holds highest at the last place, summed over the features of each
token or the pixels of each patch.
"""
import json, pathlib, sys
import torch
from captum.attr import InputXGradient, IntegratedGradients
from transformers import (AutoModelForCausalLM, AutoModelForMaskedLM, AutoModelForSeq2SeqLM,
                          AutoModelForSequenceClassification, ViTForImageClassification)

src, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
IDS, TARGET = [5, 17, 23, 42, 9, 61], [31, 8, 77, 12]


def rounded(x):
    return json.loads(json.dumps(x.detach().double().tolist()), parse_float=lambda s: round(float(s), 7))


def attribute(forward, x, base, place):
    """Integrated gradients and input x gradient of the best score at `place`."""
    with torch.no_grad():
        row = forward(x)[0]
        row = row[place] if row.dim() == 2 else row
        best = int(row.argmax())
    def score(x):
        y = forward(x)
        return y[:, place, best] if y.dim() == 3 else y[:, best]
    x = x.detach().requires_grad_()
    ig = IntegratedGradients(score).attribute(x, baselines=base, n_steps=64, method="gausslegendre", internal_batch_size=1)
    gx = InputXGradient(score).attribute(x)
    whole = float(score(x) - score(base))
    return best, ig[0], gx[0], whole


def average(model, vectors):
    return model.get_input_embeddings().weight.detach().mean(0).expand_as(vectors)


def save(name, data):
    (out / f"{name}.json").write_text(json.dumps(data) + "\n")
    print(name, (out / f"{name}.json").stat().st_size)


def text(name, cls, norm, head):
    model = cls.from_pretrained(src / name, attn_implementation="eager").eval()
    ids = torch.tensor([IDS])
    with torch.no_grad():
        seen = model(input_ids=ids, output_hidden_states=True, output_attentions=True)
    vectors = model.get_input_embeddings()(ids).detach()
    again = model(inputs_embeds=vectors).logits
    assert torch.allclose(again, seen.logits, atol=1e-5), name
    place = seen.logits.shape[1] - 1 if seen.logits.dim() == 3 else 0
    best, ig, gx, whole = attribute(lambda x: model(inputs_embeds=x).logits, vectors, average(model, vectors), place)
    lens = None
    if head is not None:
        states = list(seen.hidden_states[:-1])
        with torch.no_grad():
            lens = [rounded(torch.softmax(head(model)(norm(model)(h)), -1)[0].max(-1).values) for h in states]
            tops = [torch.softmax(head(model)(norm(model)(h)), -1)[0].argmax(-1).tolist() for h in states]
        lens = {"probability": lens, "token": tops}
    save(name, {"ids": IDS, "attentions": rounded(torch.stack(seen.attentions)[:, 0]), "lens": lens, "place": place,
                "target": best, "integrated": rounded(ig.sum(-1)), "input_gradient": rounded(gx.sum(-1)), "whole": whole})


def pair(name):
    model = AutoModelForSeq2SeqLM.from_pretrained(src / name, attn_implementation="eager").eval()
    ids = torch.tensor([IDS])
    decoder = torch.tensor([[model.config.decoder_start_token_id] + TARGET[:-1]])
    with torch.no_grad():
        seen = model(input_ids=ids, decoder_input_ids=decoder, output_attentions=True)
    scale = (model.config.d_model ** 0.5) if getattr(model.config, "scale_embedding", False) else 1.0
    vectors = (model.get_input_embeddings()(ids) * scale).detach()
    forward = lambda x: model(inputs_embeds=x, decoder_input_ids=decoder).logits
    if not torch.allclose(forward(vectors), seen.logits, atol=1e-5):  # some versions scale given vectors, too
        inner = forward
        forward = lambda x: inner(x / scale)
    assert torch.allclose(forward(vectors), seen.logits, atol=1e-5), name
    place = len(TARGET) - 1
    best, ig, gx, whole = attribute(forward, vectors, average(model, vectors) * scale, place)
    save(name, {"ids": IDS, "target_ids": TARGET, "encoder": rounded(torch.stack(seen.encoder_attentions)[:, 0]),
                "decoder": rounded(torch.stack(seen.decoder_attentions)[:, 0]),
                "cross": rounded(torch.stack(seen.cross_attentions)[:, 0]), "place": place, "target": best,
                "integrated": rounded(ig.sum(-1)), "input_gradient": rounded(gx.sum(-1)), "whole": whole})


def picture(name):
    model = ViTForImageClassification.from_pretrained(src / name, attn_implementation="eager").eval()
    size, patch, channels = model.config.image_size, model.config.patch_size, model.config.num_channels
    # A picture that any tool can draw: grey levels that the network reads as (v / 255 - 0.5) / 0.5.
    bytes_ = [[[(37 * y + 61 * x + 89 * c) % 256 for x in range(size)] for y in range(size)] for c in range(channels)]
    pixels = (torch.tensor([bytes_], dtype=torch.float32) / 255 - 0.5) / 0.5
    with torch.no_grad():
        seen = model(pixel_values=pixels, output_attentions=True)
    best, ig, gx, whole = attribute(lambda x: model(pixel_values=x).logits, pixels, torch.zeros_like(pixels), 0)
    by_patch = lambda a: a.sum(0).reshape(size // patch, patch, size // patch, patch).sum((1, 3)).flatten()
    save(name, {"bytes": bytes_, "attentions": rounded(torch.stack(seen.attentions)[:, 0]), "place": 0, "target": best,
                "integrated": rounded(by_patch(ig)), "input_gradient": rounded(by_patch(gx)), "whole": whole})


same = lambda model: (lambda h: h)
text("gpt2", AutoModelForCausalLM, lambda m: m.transformer.ln_f, lambda m: m.lm_head)
text("llama", AutoModelForCausalLM, lambda m: m.model.norm, lambda m: m.lm_head)
text("bert-mlm", AutoModelForMaskedLM, same, lambda m: m.cls)
text("bert-classify", AutoModelForSequenceClassification, None, None)
pair("t5")
pair("marian")
picture("vit")
