//! What a model is given: token ids, and what is known about them. Checked here, at the door; behind it nothing fails.

use crate::spec::{Input, Spec};
use crate::{Error, Result};
use burn::tensor::Tensor;
use qkv_kernels::{Ids, Mask, Sight};
use qkv_nn::Cx;
use std::sync::Arc;

/// A batch of token sequences `[B, T]`.
#[derive(Clone, Debug)]
pub struct Tokens {
    /// the ids
    pub ids: Ids,
    /// `[B·T]`, true where real; with a cache `[B·(len + T)]`, all tokens so far
    pub padding: Option<Arc<[bool]>>,
    /// the type (segment) of each token
    pub token_types: Option<Ids>,
    /// `[B·T]`, the document each token belongs to, where several are packed into a row
    pub documents: Option<Arc<[u32]>>,
    /// `[B]`, how many tokens at the front of each row all may see: a prefix language model
    pub prefix: Option<Arc<[usize]>>,
    /// `[B, T, E]`, read in the place of the vectors that the table has for the ids: for who asks what each of them does
    pub vectors: Option<Box<Tensor<3>>>,
}

impl Tokens {
    /// Ids alone: nothing is padding.
    pub fn new(ids: Ids) -> Self {
        Self { ids, padding: None, token_types: None, documents: None, prefix: None, vectors: None }
    }

    /// With this padding, true where real.
    pub fn with_padding(self, real: impl Into<Arc<[bool]>>) -> Self {
        Self { padding: Some(real.into()), ..self }
    }

    /// With these token types.
    pub fn with_token_types(self, token_types: Ids) -> Self {
        Self { token_types: Some(token_types), ..self }
    }

    /// With these documents packed into the rows.
    pub fn with_documents(self, documents: impl Into<Arc<[u32]>>) -> Self {
        Self { documents: Some(documents.into()), ..self }
    }

    /// With these prefixes that all may see.
    pub fn with_prefix(self, prefix: impl Into<Arc<[usize]>>) -> Self {
        Self { prefix: Some(prefix.into()), ..self }
    }

    /// With these vectors in the place of those of the ids, as [`Transformer::embed`](crate::Transformer::embed) gives them.
    pub fn with_vectors(self, vectors: Tensor<3>) -> Self {
        Self { vectors: Some(Box::new(vectors)), ..self }
    }

    /// The mask of self-attention under a stack's own `sight`. A prefix is refused where it could change nothing.
    pub(crate) fn mask(&self, name: &str, sight: Sight) -> Result<Mask> {
        let refuse = |because: &str| Err(Error::new(name, format!("a prefix {because}"), "leave the prefix out"));
        let sight = match (&self.prefix, sight) {
            (None, sight) => sight,
            (Some(_), Sight::Both) => return refuse("means nothing to an encoder, which sees everything"),
            (Some(_), Sight::Window(_)) => return refuse("cannot be seen through this model's window"),
            (Some(prefix), _) => Sight::Prefix(prefix.clone()),
        };
        Ok(Mask { sight, padding: self.padding.clone(), documents: self.documents.clone() })
    }

    /// Refuses what does not fit `spec`, naming the place.
    pub(crate) fn check(&self, name: &str, spec: &Spec, cx: &Cx) -> Result<()> {
        let [b, t] = self.ids.dims();
        let fail = |what: String, hint: &str| Err(Error::new(name, what, hint));
        if b == 0 || t == 0 {
            return fail("there are no tokens".into(), "give at least one token");
        }
        let Input::Tokens { vocabulary, token_types, .. } = spec.input else {
            return fail("this model reads images, not tokens".into(), "give it pixels");
        };
        if let Some((row, column, id)) = self.ids.first_outside(vocabulary) {
            let what = format!("id {id} in row {row}, column {column} is outside the vocabulary of {vocabulary}");
            return fail(what, "were the ids made by this model's own tokenizer?");
        }
        let held = cx.cache.as_ref().map_or(0, |cache| cache.len());
        if let (Some(max), Some(last)) = (spec.position.max(), cx.positions.largest(b, t))
            && last >= max
        {
            let what = format!("position {last} is past the last of {max} positions");
            return fail(what, &format!("shorten the input to {max} tokens, or choose a model with more positions"));
        }
        if let Some(rows) = cx.cache.as_ref().and_then(|cache| cache.rows())
            && rows != b
        {
            let what = format!("there are {b} rows, but the cache holds {rows}");
            return fail(what, "give the next tokens of every row, or reorder the cache first");
        }
        if let Some(cache) = cx.cache.as_ref()
            && held + t > cache.capacity()
        {
            let what = format!("{held} cached tokens and {t} new ones exceed the cache's {}", cache.capacity());
            return fail(what, "make the cache as large as prompt and continuation together");
        }
        let length = |what: &str, got: usize, want: usize| match got == want {
            true => Ok(()),
            false => fail(
                format!("{what} has {got} entries, but there are {want} places"),
                "give one entry for each place, row by row",
            ),
        };
        length("the padding mask", self.padding.as_ref().map_or(b * (held + t), |p| p.len()), b * (held + t))?;
        length("the list of documents", self.documents.as_ref().map_or(b * (held + t), |d| d.len()), b * (held + t))?;
        length("the list of prefixes", self.prefix.as_ref().map_or(b, |p| p.len()), b)?;
        if let qkv_kernels::Positions::Each(each) = &cx.positions {
            length("the list of positions", each.len(), b * t)?;
        }
        if let Some(vectors) = &self.vectors
            && vectors.dims() != [b, t, spec.table_width()]
        {
            let what = format!("vectors are {:?}, but tokens want {:?}", vectors.dims(), [b, t, spec.table_width()]);
            return fail(what, "give one vector for each token, as `embed` does");
        }
        let Some(given) = &self.token_types else { return Ok(()) };
        if token_types == 0 {
            return fail("this model knows no token types".into(), "leave the token types out");
        }
        let [type_rows, type_columns] = given.dims();
        if [type_rows, type_columns] != [b, t] {
            let what = format!("token types are {type_rows} × {type_columns}, but tokens are {b} × {t}");
            return fail(what, "give one type for each token");
        }
        match given.first_outside(token_types) {
            Some((row, column, id)) => fail(
                format!("token type {id} in row {row}, column {column} is outside the {token_types} types"),
                "token types count from 0: the first segment is 0",
            ),
            None => Ok(()),
        }
    }
}

/// Refuses images that do not fit `spec`.
pub(crate) fn check_pixels(pixels: &Tensor<4>, spec: &Spec) -> Result<()> {
    let Input::Patches { image, channels, .. } = spec.input else {
        return Err(Error::new("pixels", "this model reads tokens, not images", "give it token ids"));
    };
    let [b, c, h, w] = pixels.dims();
    if b == 0 {
        return Err(Error::new("pixels", "there are no images", "give at least one image"));
    }
    if [c, h, w] != [channels, image, image] {
        let what = format!("images are {c} × {h} × {w}, but the model reads {channels} × {image} × {image}");
        return Err(Error::new("pixels", what, "resize the images before"));
    }
    Ok(())
}
