//! Every input that does not fit is refused with what, where and a hint: no panic, and nothing accepted and ignored.

mod common;

use burn::tensor::{Device, Tensor};
use common::*;
use qkv_kernels::{Ids, Positions};
use qkv_model::{CausalLm, Encoder, Error, Memory, Seq2Seq, Tokens, Transformer};
use qkv_nn::{Cache, Cx, LoraSize};

fn model(name: &str) -> Transformer {
    answering(&spec(name))
}

/// The words of a refusal: place and what, then the hint.
#[track_caller]
fn refused<T>(answer: Result<T, Error>, message: &str, hint: &str) {
    let Err(error) = answer else { panic!("accepted, but should say: {message}") };
    assert_eq!((error.to_string().as_str(), error.hint.as_str()), (message, hint));
}

fn one(ids: &[u32]) -> Tokens {
    Tokens::new(Ids::one(ids))
}

fn memory(model: &Transformer, rows: usize) -> Memory {
    model.encode(&tokens(rows, 4, 1), &mut Cx::eval()).unwrap()
}

#[test]
fn ids_outside_the_vocabulary() {
    let hint = "were the ids made by this model's own tokenizer?";
    let bad = Tokens::new(Ids::new([1, 2, 3, 4, 97, 98], 2));
    let says = |place: &str| format!("{place}: id 97 in row 1, column 1 is outside the vocabulary of 97");
    refused(model("tiny-decoder").logits(&bad, &mut Cx::eval()), &says("tokens"), hint);
    refused(model("tiny-encoder").hidden(&bad, &mut Cx::eval()), &says("tokens"), hint);
    let pair = model("tiny-pair");
    refused(pair.encode(&bad, &mut Cx::eval()), &says("source"), hint);
    refused(pair.decode(&bad, &memory(&pair, 2), &mut Cx::eval()), &says("target"), hint);
    let last = one(&[u32::MAX]);
    let message = "tokens: id 4294967295 in row 0, column 0 is outside the vocabulary of 97";
    refused(model("tiny-llama").logits(&last, &mut Cx::eval()), message, hint);
}

#[test]
fn nothing_at_all() {
    let hint = "give at least one token";
    for empty in [Tokens::new(Ids::new([], 0)), one(&[]), Tokens::new(Ids::new([], 3))] {
        refused(model("tiny-decoder").logits(&empty, &mut Cx::eval()), "tokens: there are no tokens", hint);
        refused(model("tiny-encoder").answer(&empty, &mut Cx::eval()), "tokens: there are no tokens", hint);
        let pair = model("tiny-t5");
        refused(pair.encode(&empty, &mut Cx::eval()), "source: there are no tokens", hint);
        refused(pair.decode(&empty, &memory(&pair, 1), &mut Cx::eval()), "target: there are no tokens", hint);
    }
    let no_images = Tensor::<4>::zeros([0, 3, 12, 12], &Device::flex());
    let answer = model("tiny-vit").answer_image(no_images, &mut Cx::eval());
    refused(answer, "pixels: there are no images", "give at least one image");
}

#[test]
fn more_tokens_than_positions() {
    let hint = "shorten the input to 64 tokens, or choose a model with more positions";
    let message = "position 64 is past the last of 64 positions";
    for name in ["tiny-decoder", "tiny-llama", "tiny-layerwise"] {
        assert!(model(name).logits(&tokens(1, 64, 1), &mut Cx::eval()).is_ok(), "{name}: all positions can be used");
        refused(model(name).logits(&tokens(1, 65, 1), &mut Cx::eval()), &format!("tokens: {message}"), hint);
    }
    refused(model("tiny-encoder").hidden(&tokens(1, 65, 1), &mut Cx::eval()), &format!("tokens: {message}"), hint);
    let pair = model("tiny-bart");
    refused(pair.encode(&tokens(1, 65, 1), &mut Cx::eval()), &format!("source: {message}"), hint);
    let decoded = pair.decode(&tokens(1, 65, 1), &memory(&pair, 1), &mut Cx::eval());
    refused(decoded, &format!("target: {message}"), hint);
    // Nor by explicit positions, nor step by step with room in the cache.
    let cx = &mut Cx::eval().with_positions(Positions::Each([0, 64].into()));
    refused(model("tiny-llama").logits(&tokens(1, 2, 1), cx), &format!("tokens: {message}"), hint);
    let (decoder, mut cache) = (model("tiny-decoder"), Cache::new(100));
    decoder.logits(&tokens(1, 64, 1), &mut Cx::decode(&mut cache)).unwrap();
    let next = decoder.logits(&tokens(1, 1, 1), &mut Cx::decode(&mut cache));
    refused(next, &format!("tokens: {message}"), hint);
    // Where positions have no end there is no limit.
    assert!(model("tiny-alibi").logits(&tokens(1, 200, 1), &mut Cx::eval()).is_ok());
}

#[test]
fn more_tokens_than_the_cache_has_room_for() {
    let hint = "make the cache as large as prompt and continuation together";
    let decoder = model("tiny-decoder");
    let mut cache = Cache::new(5);
    decoder.logits(&tokens(1, 3, 1), &mut Cx::decode(&mut cache)).unwrap();
    let next = decoder.logits(&tokens(1, 3, 2), &mut Cx::decode(&mut cache));
    refused(next, "tokens: 3 cached tokens and 3 new ones exceed the cache's 5", hint);
    assert!(
        decoder.logits(&tokens(1, 2, 2), &mut Cx::decode(&mut cache)).is_ok(),
        "a refusal leaves the cache as it was"
    );
    let pair = model("tiny-pair");
    let next = pair.decode(&tokens(1, 3, 1), &memory(&pair, 1), &mut Cx::decode(&mut Cache::new(2)));
    refused(next, "target: 0 cached tokens and 3 new ones exceed the cache's 2", hint);
}

#[test]
fn another_number_of_rows_than_the_cache_holds() {
    let decoder = model("tiny-decoder");
    let mut cache = Cache::new(5);
    decoder.logits(&tokens(2, 2, 1), &mut Cx::decode(&mut cache)).unwrap();
    let next = decoder.logits(&tokens(3, 1, 2), &mut Cx::decode(&mut cache));
    let hint = "give the next tokens of every row, or reorder the cache first";
    refused(next, "tokens: there are 3 rows, but the cache holds 2", hint);
}

#[test]
fn lists_of_the_wrong_length() {
    let hint = "give one entry for each place, row by row";
    let decoder = model("tiny-decoder");
    let given = tokens(2, 3, 1);
    let refuse = |tokens: Tokens, message: &str| refused(decoder.logits(&tokens, &mut Cx::eval()), message, hint);
    refuse(given.clone().with_padding([true; 5]), "tokens: the padding mask has 5 entries, but there are 6 places");
    refuse(given.clone().with_documents([0; 7]), "tokens: the list of documents has 7 entries, but there are 6 places");
    refuse(given.clone().with_prefix([1]), "tokens: the list of prefixes has 1 entries, but there are 2 places");
    let cx = &mut Cx::eval().with_positions(Positions::Each([0, 1, 2].into()));
    let message = "tokens: the list of positions has 3 entries, but there are 6 places";
    refused(decoder.logits(&given, cx), message, hint);
    // With a cache the padding covers what is held, too.
    let mut cache = Cache::new(9);
    decoder.logits(&given, &mut Cx::decode(&mut cache)).unwrap();
    let next = tokens(2, 1, 2).with_padding([true; 2]);
    let message = "tokens: the padding mask has 2 entries, but there are 8 places";
    refused(decoder.logits(&next, &mut Cx::decode(&mut cache)), message, hint);
}

#[test]
fn token_types_that_the_model_does_not_know() {
    let given = tokens(2, 3, 1);
    let token_types = |ids: [u32; 6], rows| given.clone().with_token_types(Ids::new(ids, rows));
    let answer = model("tiny-decoder").logits(&token_types([0; 6], 2), &mut Cx::eval());
    refused(answer, "tokens: this model knows no token types", "leave the token types out");
    let encoder = model("tiny-encoder");
    refused(
        encoder.answer(&token_types([0, 0, 1, 0, 2, 1], 2), &mut Cx::eval()),
        "tokens: token type 2 in row 1, column 1 is outside the 2 types",
        "token types count from 0: the first segment is 0",
    );
    refused(
        encoder.answer(&token_types([0; 6], 1), &mut Cx::eval()),
        "tokens: token types are 1 × 6, but tokens are 2 × 3",
        "give one type for each token",
    );
}

/// Kinds belong to every stack that reads the tokens, not to encoders alone.
#[test]
fn token_types_of_a_decoder_are_used() {
    let mut spec = spec("tiny-decoder");
    spec.input = qkv_model::spec::Input::Tokens {
        vocabulary: 97,
        table_width: None,
        token_types: 2,
        scaled: false,
        normed: false,
        pad: None,
    };
    let decoder = answering(&spec);
    let logits = |token_types: [u32; 3]| {
        let tokens = tokens(1, 3, 1).with_token_types(Ids::one(token_types));
        qkv_testkit::values(decoder.logits(&tokens, &mut Cx::eval()).unwrap())
    };
    assert_ne!(logits([0, 0, 0]), logits([0, 1, 1]));
}

#[test]
fn a_prefix_where_it_could_change_nothing() {
    let given = tokens(1, 4, 1).with_prefix([2]);
    let hint = "leave the prefix out";
    let message = "tokens: a prefix means nothing to an encoder, which sees everything";
    refused(model("tiny-encoder").hidden(&given, &mut Cx::eval()), message, hint);
    let message = "source: a prefix means nothing to an encoder, which sees everything";
    refused(model("tiny-pair").encode(&given, &mut Cx::eval()), message, hint);
    let message = "tokens: a prefix cannot be seen through this model's window";
    refused(model("tiny-alibi").logits(&given, &mut Cx::eval()), message, hint);
}

#[test]
fn images_of_the_wrong_size() {
    let vit = model("tiny-vit");
    for [c, h, w] in [[3, 12, 11], [3, 16, 16], [1, 12, 12]] {
        let pixels = Tensor::<4>::zeros([2, c, h, w], &Device::flex());
        let message = format!("pixels: images are {c} × {h} × {w}, but the model reads 3 × 12 × 12");
        refused(vit.answer_image(pixels, &mut Cx::eval()), &message, "resize the images before");
    }
}

#[test]
fn tokens_for_images_and_images_for_tokens() {
    let (vit, given) = (model("tiny-vit"), tokens(1, 4, 1));
    let message = "tokens: this model reads images, not tokens";
    refused(vit.answer(&given, &mut Cx::eval()), message, "give it pixels");
    refused(vit.hidden(&given, &mut Cx::eval()), message, "give it pixels");
    let pixels = Tensor::<4>::zeros([1, 3, 12, 12], &Device::flex());
    for name in ["tiny-encoder", "tiny-decoder", "tiny-pair"] {
        let answer = model(name).answer_image(pixels.clone(), &mut Cx::eval());
        refused(answer, "pixels: this model reads tokens, not images", "give it token ids");
    }
}

#[test]
fn what_the_shape_cannot_do() {
    let hint = "choose a model of another shape";
    let (encoder, decoder, pair) = (model("tiny-encoder"), model("tiny-decoder"), model("tiny-pair"));
    let given = tokens(2, 4, 1);
    let no_encoder = "model: there is no encoder: this model has a decoder only";
    refused(decoder.encode(&given, &mut Cx::eval()), no_encoder, hint);
    refused(decoder.hidden(&given, &mut Cx::eval()), no_encoder, hint);
    refused(decoder.answer(&given, &mut Cx::eval()), no_encoder, hint);
    let message = "model: there is no encoder: this model has a decoder only, which looks at no memory";
    refused(decoder.decode(&given, &memory(&pair, 2), &mut Cx::eval()), message, hint);
    let no_decoder = "model: there is no decoder: this model has an encoder only";
    refused(encoder.logits(&given, &mut Cx::eval()), no_decoder, hint);
    refused(encoder.decode(&given, &memory(&pair, 2), &mut Cx::eval()), no_decoder, hint);
    let message = "model: there is no decoder alone: this model has an encoder that wants a source";
    refused(pair.logits(&given, &mut Cx::eval()), message, hint);
}

#[test]
fn a_memory_that_does_not_fit() {
    let pair = model("tiny-pair");
    let decode = |memory: Memory| pair.decode(&tokens(3, 2, 1), &memory, &mut Cx::eval());
    refused(
        decode(memory(&pair, 2)),
        "memory: there are 2 source rows for 3 target rows",
        "give each source row as many target rows as the others",
    );
    refused(
        decode(Memory { padding: Some([true; 5].into()), ..memory(&pair, 3) }),
        "memory: the padding mask has 5 entries, but there are 12 places",
        "give one entry for each source token",
    );
    refused(
        decode(Memory { states: Tensor::zeros([3, 4, 16], &Device::flex()), padding: None }),
        "memory: its states have 16 features, but the model is 32 wide",
        "give what this model's own encoder made",
    );
}

#[test]
fn adapters_that_cannot_be() {
    let with = |name: &str, targets: &[&str], rank, alpha| {
        model(name).with_lora(targets, LoraSize { rank, alpha, dropout: 0.0 }, 0)
    };
    let message = "lora.targets: no layer's path ends in `query`";
    refused(with("tiny-decoder", &["q", "query"], 4, 8.0), message, "there are q, k, v, out, up, down");
    refused(with("tiny-llama", &["query"], 4, 8.0), message, "there are q, k, v, out, up, gate, down, head.out");
    refused(with("tiny-vit", &["query"], 4, 8.0), message, "there are project, q, k, v, out, up, down, head.out");
    refused(with("tiny-decoder", &[], 4, 8.0), "lora.targets: no layer is named", "there are q, k, v, out, up, down");
    let hint = "use 1 or more, usually 4 to 64";
    refused(with("tiny-decoder", &["q"], 0, 8.0), "lora.rank: an adapter of rank 0 learns nothing", hint);
    let hint = "use a positive number, usually once or twice the rank";
    refused(with("tiny-decoder", &["q"], 4, f64::NAN), "lora.alpha: NaN is not a strength of an adapter", hint);
    let twice = with("tiny-decoder", &["q"], 4, 8.0).unwrap().with_lora(
        &["v"],
        LoraSize { rank: 4, alpha: 8.0, dropout: 0.0 },
        0,
    );
    let message = "lora: `decoder.layers.0.attention.q` has an adapter already";
    refused(twice, message, "merge the first adapters before");
    let always = model("tiny-decoder").with_lora(&["q"], LoraSize { rank: 4, alpha: 8.0, dropout: 1.0 }, 0);
    refused(always, "lora.dropout: 1 is not a probability of dropping", "use 0 up to, but not, 1");
}
