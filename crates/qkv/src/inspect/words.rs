//! A spec in words: one line for each choice an architecture makes.

use super::numbers::grouped;
use qkv_kernels::{Activation, Pairing, RecurrentCell};
use qkv_model::spec::{
    Dropout, Handover, Head, InitScheme, Input, Output, Place, Pool, Position, Recurrence, Shape, Spec, Stack, Window,
};
use qkv_nn::position::{Buckets, RopeScaling, Waves};
use qkv_nn::recurrent::Ways;
use qkv_nn::{Biased, Ffn, NormKind, Scale, Wiring};
use serde::Serialize;

/// One choice.
#[derive(Debug, Serialize)]
pub(super) struct Fact {
    pub(super) what: &'static str,
    pub(super) words: String,
}

/// Every choice of `spec`, from input to start values.
pub(super) fn facts(spec: &Spec) -> Vec<Fact> {
    if let Some((stack, cells)) = spec.recurrence() {
        let all = [
            ("shape", recurrent_shape(spec, stack)),
            ("input", input(spec)),
            ("cells", recurrent_cells(spec, cells)),
            ("head", head(spec)),
            ("dropout", dropout(spec.dropout)),
            ("start", start(spec.init)),
        ];
        return all.into_iter().map(|(what, words)| Fact { what, words }).collect();
    }
    let mut facts = vec![
        ("shape", shape(spec)),
        ("input", input(spec)),
        ("wiring", wiring(spec.wiring).into()),
        ("norm", norm(spec.norm)),
        ("positions", position(&spec.position)),
    ];
    match &spec.shape {
        Shape::Pair { encoder, decoder } if encoder != decoder => {
            facts.extend([("attention", attention(spec, encoder)), ("feed-forward", ffn(spec, encoder))]);
            facts.extend([("  in decoder", attention(spec, decoder)), ("  in decoder", ffn(spec, decoder))]);
        }
        Shape::Encoder(stack) | Shape::Decoder(stack) | Shape::Pair { decoder: stack, .. } => {
            facts.extend([("attention", attention(spec, stack)), ("feed-forward", ffn(spec, stack))]);
        }
    }
    facts.extend([("head", head(spec)), ("dropout", dropout(spec.dropout)), ("start", start(spec.init))]);
    facts.into_iter().map(|(what, words)| Fact { what, words }).collect()
}

fn shape(spec: &Spec) -> String {
    match &spec.shape {
        Shape::Encoder(stack) => format!("encoder of {}, reads both ways", layers(stack)),
        Shape::Decoder(stack) => match stack.window {
            Window::Every(n) => format!("decoder of {}, sees itself and {} before", layers(stack), n - 1),
            Window::Alternating { window, full_every } => format!(
                "decoder of {}, sees itself and {} before, every {} layer everything",
                layers(stack),
                window - 1,
                ordinal(full_every)
            ),
            Window::Unmasked => format!("decoder of {}, sees what comes next as well", layers(stack)),
            Window::None => format!("decoder of {}, sees itself and everything before", layers(stack)),
        },
        Shape::Pair { encoder, decoder } => {
            format!("encoder of {}, decoder of {} that also looks at the encoder", layers(encoder), layers(decoder))
        }
    }
}

fn recurrent_shape(spec: &Spec, stack: &Stack) -> String {
    match spec.shape {
        Shape::Encoder(_) => format!("{}, read from the first token on and from the last token back", layers(stack)),
        Shape::Pair { .. } => {
            let handed = match stack.recurrent.and_then(|cells| cells.handover) {
                Some(Handover::Attention) => "looks at every output of the encoder before each step".to_string(),
                _ => {
                    let parts = stack.recurrent.map_or(1, |cells| cells.cell.parts());
                    let numbers = grouped(stack.layers * parts * spec.width);
                    format!("knows {numbers} numbers of the source, the encoder's last state")
                }
            };
            format!("encoder and decoder of {} each; the decoder {handed}", layers(stack))
        }
        _ => format!("{}, read from the first token on", layers(stack)),
    }
}

fn recurrent_cells(spec: &Spec, cells: Recurrence) -> String {
    if let Some(window) = cells.window {
        return format!("a fixed window: {} units, tanh of the last {window} inputs beside each other", spec.width);
    }
    let width = if cells.ways == Ways::Both { spec.width / 2 } else { spec.width };
    match cells.cell {
        RecurrentCell::Rnn => format!("RNN: {width} units, tanh of input and state"),
        RecurrentCell::Gru => format!("GRU: {width} units, two gates and a candidate"),
        RecurrentCell::Lstm => format!("LSTM: {width} units and as many cells, three gates and a candidate"),
    }
}

fn layers(stack: &Stack) -> String {
    format!("{} {}", stack.layers, if stack.layers == 1 { "layer" } else { "layers" })
}

fn ordinal(n: usize) -> String {
    match n {
        2 => "second".into(),
        3 => "third".into(),
        n => format!("{n}th"),
    }
}

fn input(spec: &Spec) -> String {
    let c = grouped(spec.width);
    match spec.input {
        Input::Tokens { vocabulary, token_types, scaled, normed, .. } => {
            let scaled = if scaled { format!(", times √{c}") } else { String::new() };
            let types = if token_types > 0 {
                format!(", {token_types} token {}", if token_types == 1 { "type" } else { "types" })
            } else {
                String::new()
            };
            let normed = if normed { ", normalised" } else { "" };
            let [v, e] = [vocabulary, spec.table_width()].map(grouped);
            let project = if e == c { String::new() } else { format!(", then {e} → {c}") };
            format!("{v} tokens, vectors of {e}{scaled}{types}{normed}{project}")
        }
        Input::Patches { image, patch, channels } => {
            let tokens = spec.patches().unwrap_or(0);
            format!(
                "images of {image} × {image} × {channels} in patches of {patch} × {patch}: {tokens} vectors of {c}, one for the class"
            )
        }
    }
}

fn wiring(wiring: Wiring) -> &'static str {
    match wiring {
        Wiring::Pre => "pre-norm, x + f(norm(x)), a norm at the end of the stack",
        Wiring::Post => "post-norm, norm(x + f(x))",
        Wiring::Sandwich => "norms on both sides, x + norm(f(norm(x))), a norm at the end of the stack",
    }
}

fn norm(norm: NormKind) -> String {
    match norm {
        NormKind::Layer { eps } => format!("LayerNorm, ε {eps:e}"),
        NormKind::Rms { eps } => format!("RMSNorm, ε {eps:e}"),
        NormKind::None => "none".into(),
        NormKind::RmsOnePlus { eps } => format!("RMSNorm with gains counted from one, ε {eps:e}"),
    }
}

fn position(position: &Position) -> String {
    let up_to = |max: usize| format!("up to {}", grouped(max));
    match position {
        Position::None => "none".into(),
        Position::Sinusoidal { max, waves } => {
            let order = match waves {
                Waves::Interleaved => "sines and cosines in turn",
                Waves::Halves => "sines first, then cosines",
            };
            format!("sinusoidal, {order}, {}", up_to(*max))
        }
        Position::Learned { max, offset, padding_id, place } => {
            let place = match place {
                Place::Input => "",
                Place::EachLayer => " at each layer",
            };
            let skipped = if *offset > 0 {
                format!(", {offset} unused {} before", if *offset == 1 { "row" } else { "rows" })
            } else {
                String::new()
            };
            let pad = padding_id.map_or(String::new(), |id| format!(", token {id} not counted"));
            format!("learned{place}, {}{skipped}{pad}", up_to(*max))
        }
        Position::Relative(Buckets::Each { max }) => format!("a learned number per head and offset, −{max} to {max}"),
        Position::Relative(Buckets::Logarithmic { buckets, max_distance, .. }) => {
            format!("a learned number per head and distance, {buckets} buckets that widen up to {max_distance}")
        }
        Position::Rotary { max, theta, features, scaling, pairing, window_theta } => {
            let part = features.map_or(String::new(), |n| format!(", {n} features of each head"));
            let pairs = match pairing {
                Pairing::Halves => "halves paired",
                Pairing::Neighbours => "neighbours paired",
            };
            let local = window_theta.map_or(String::new(), |t| format!(" ({} within windows)", grouped(t as u64)));
            let theta = grouped(*theta as u64);
            format!("rotary, θ {theta}{local}{part}, {pairs}{}, {}", stretched(*scaling), up_to(*max))
        }
        Position::Alibi => "ALiBi, a fixed slope per head, no limit".into(),
    }
}

fn stretched(scaling: RopeScaling) -> String {
    match scaling {
        RopeScaling::None => String::new(),
        RopeScaling::Linear { factor } => format!(", stretched {factor} times"),
        RopeScaling::Dynamic { factor, .. } => format!(", stretched {factor} times by a larger θ"),
        RopeScaling::Llama3 { factor, .. } => format!(", slow waves stretched {factor} times (LLaMA 3)"),
        RopeScaling::Yarn { factor, .. } => format!(", slow waves stretched {factor} times (YaRN)"),
    }
}

fn attention(spec: &Spec, stack: &Stack) -> String {
    let heads = stack.heads(spec.width);
    let shared = match heads.heads / heads.kv_heads {
        1 => String::new(),
        n => format!(", {n} share one of {} key heads", heads.kv_heads),
    };
    let scale = match spec.attention_scale {
        Scale::InverseRoot => format!("scores / √{}", heads.dim),
        Scale::One => "scores unscaled".into(),
        Scale::InverseRootOf(n) => format!("scores / √{n}"),
    };
    let bias = match spec.attention_bias {
        Biased::All => "biases",
        Biased::None => "no biases",
        Biased::Qkv => "biases for queries, keys and values",
    };
    let cap = spec.soft_cap.attention.map_or(String::new(), |cap| format!(" within ±{cap}"));
    let normed = if spec.qk_norm.is_some() { ", queries and keys normalised" } else { "" };
    format!("{} heads of {}{shared}{normed}, {scale}{cap}, {bias}", heads.heads, heads.dim)
}

fn ffn(spec: &Spec, stack: &Stack) -> String {
    let [c, f] = [spec.width, stack.ffn.inner()].map(grouped);
    let bias = if spec.ffn_bias { "biases" } else { "no biases" };
    match stack.ffn {
        Ffn::Dense { act, .. } => format!("{c} → {f} → {c}, {}, {bias}", activation(act)),
        Ffn::Gated { act, .. } => format!("{c} → 2 × {f} → {c}, gated by {}, {bias}", activation(act)),
    }
}

fn activation(act: Activation) -> &'static str {
    match act {
        Activation::Relu => "ReLU",
        Activation::Gelu => "GELU",
        Activation::GeluTanh => "GELU by tanh",
        Activation::Silu => "SiLU",
        Activation::Tanh => "tanh",
    }
}

fn head(spec: &Spec) -> String {
    match &spec.head {
        Head::None => "none, hidden states come out".into(),
        Head::Language { output, bias } => {
            let output = match output {
                Output::Own => "a matrix of its own",
                Output::Tied => "tied to the token vectors",
                Output::TiedScaled => "tied to the token vectors, hidden states / √C",
            };
            let cap = spec.soft_cap.logits.map_or(String::new(), |cap| format!(", within ±{cap}"));
            format!("a score for each word, {output}{}{cap}", if *bias { ", with a bias" } else { "" })
        }
        Head::Masked { act } => {
            format!("a score for each hidden word: dense, {}, norm, tied to the token vectors", activation(*act))
        }
        Head::Classify { labels, pool } => match pool {
            Pool::First => format!("{} classes from the first position", grouped(*labels)),
            Pool::Dense(act) => {
                format!("{} classes from the first position through dense and {}", grouped(*labels), activation(*act))
            }
        },
        Head::Tag { labels } => format!("{} tags for each position", grouped(*labels)),
        Head::Span => "start and end scores for each position".into(),
        Head::Detect { act } => {
            format!("a score for each position, above 0 where the token was replaced: dense, {}", activation(*act))
        }
        Head::Pool => "one vector for the sequence".into(),
    }
}

fn dropout(dropout: Dropout) -> String {
    let Dropout { input, hidden, attention, inner, head } = dropout;
    if [input, hidden, attention, inner, head].iter().all(|p| *p == 0.0) {
        return "none".into();
    }
    let mut text = format!("{hidden} of sub-layers, {attention} of attention weights, {inner} inside the feed-forward");
    for (p, of) in [(input, "embeddings"), (head, "the head's input")] {
        if p != hidden {
            text += &format!(", {p} of {of}");
        }
    }
    text
}

fn start(start: InitScheme) -> String {
    match start {
        InitScheme::Normal { std } => format!("Gaussian of {std}"),
        InitScheme::Gpt2 { std } => format!("Gaussian of {std}, smaller where a sub-layer ends (GPT-2)"),
        InitScheme::Xavier => "Glorot's uniform, token vectors Gaussian of 1/√C".into(),
        InitScheme::T5 => "Gaussian by fan-in (T5)".into(),
        InitScheme::Torch => "uniform by fan-in (PyTorch)".into(),
    }
}
