//! The tokenizers of `qkv-text` as the objectives of `qkv-data` want them.

use qkv_base::Result;
use qkv_data::{Pieces, Role, Tokenize};
use qkv_text::Tokenizer;

/// One side of a tokenizer: what is read, or what is written.
#[derive(Clone, Debug)]
pub struct Side {
    tokenizer: Tokenizer,
    target: bool,
}

impl Side {
    /// What is read.
    pub fn source(tokenizer: &Tokenizer) -> Self {
        Self { tokenizer: tokenizer.clone(), target: false }
    }

    /// What is written; it differs from the other side in checkpoints with one vocabulary for each language only.
    pub fn target(tokenizer: &Tokenizer) -> Self {
        Self { tokenizer: tokenizer.clone(), target: true }
    }
}

impl Tokenize for Side {
    fn encode(&self, text: &str) -> Result<Pieces> {
        let encoding = match self.target {
            true => self.tokenizer.encode_target(text, false)?,
            false => self.tokenizer.encode(text, false)?,
        };
        // A word begins where the pre-tokenizer says that another one is on.
        let first = |i: usize| i == 0 || encoding.word_ids.get(i) != encoding.word_ids.get(i - 1);
        let first_of_word = (0..encoding.ids.len()).map(first).collect();
        Ok(Pieces { ids: encoding.ids, spans: encoding.bytes, first_of_word })
    }

    fn role(&self, role: Role) -> Option<u32> {
        let special = self.tokenizer.special();
        match role {
            Role::Pad => special.pad,
            Role::Bos => special.bos,
            Role::Eos => special.eos,
            Role::Cls => special.cls,
            Role::Sep => special.sep,
            Role::Mask => special.mask,
            Role::Unk => special.unk,
            Role::Sentinel(i) => self.tokenizer.id(&format!("<extra_id_{i}>")),
        }
    }

    fn vocab_size(&self) -> usize {
        self.tokenizer.vocab_size()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use qkv_text::{Kind, Shape, TrainSpec, train};

    #[test]
    fn pieces_and_roles_are_those_of_the_tokenizer() {
        let lines = ["the cat sat", "the cats sat on mats"].map(String::from);
        let spec = TrainSpec { shape: Shape::T5 { sentinels: 2 }, vocab_size: 40, ..TrainSpec::new(Kind::Unigram) };
        let tokenizer = train(lines, &spec, &mut |_| {}).expect("a tokenizer").tokenizer;
        let side = Side::source(&tokenizer);
        let pieces = side.encode("the cats").expect("pieces");
        assert_eq!(pieces.ids, tokenizer.encode("the cats", false).expect("ids").ids);
        assert_eq!(pieces.first_of_word.iter().filter(|f| **f).count(), 2, "{pieces:?}");
        assert_eq!(side.role(Role::Pad), Some(0));
        assert_eq!(side.role(Role::Sentinel(0)), Some(tokenizer.vocab_size() as u32 - 1));
        assert_eq!(side.role(Role::Sentinel(2)), None);
    }
}
