//! A tensor on its way to a file: name, shape, and values at hand or made when their turn comes.

use std::borrow::Cow;

use qkv_base::{Error, Result};

use crate::Dtype;
use crate::dtype::count;

/// One tensor to be written.
pub struct Tensor<'a> {
    pub(crate) name: String,
    pub(crate) shape: Vec<usize>,
    pub(crate) data: Data<'a>,
}

/// Where its bytes come from.
pub(crate) enum Data<'a> {
    /// values, stored in the type of the file
    Values(&'a [f32]),
    /// values made when their turn comes, so that not all need be in memory at once
    Made(Box<dyn Fn() -> Result<Vec<f32>> + 'a>),
    /// bytes that are stored as they are
    Raw(Dtype, Box<dyn Fn() -> Result<Cow<'a, [u8]>> + 'a>),
}

impl<'a> Tensor<'a> {
    /// A tensor whose values are at hand.
    pub fn values(name: impl Into<String>, shape: impl Into<Vec<usize>>, values: &'a [f32]) -> Self {
        Self { name: name.into(), shape: shape.into(), data: Data::Values(values) }
    }

    /// A tensor whose values are asked for when it is written, and dropped after.
    ///
    /// ```
    /// let zeros = qkv_weights::Tensor::made("bias", [512], || Ok(vec![0.0; 512]));
    /// ```
    pub fn made(
        name: impl Into<String>,
        shape: impl Into<Vec<usize>>,
        values: impl Fn() -> Result<Vec<f32>> + 'a,
    ) -> Self {
        Self { name: name.into(), shape: shape.into(), data: Data::Made(Box::new(values)) }
    }

    /// A tensor whose bytes are written as they are, whatever the type of the file: what
    /// [`Checkpoint::read_raw`](crate::Checkpoint::read_raw) gave comes back bit for bit.
    pub fn raw(
        name: impl Into<String>,
        shape: impl Into<Vec<usize>>,
        dtype: Dtype,
        bytes: impl Fn() -> Result<Cow<'a, [u8]>> + 'a,
    ) -> Self {
        Self { name: name.into(), shape: shape.into(), data: Data::Raw(dtype, Box::new(bytes)) }
    }

    /// The type in which it is stored in a file of `dtype`, and how many bytes that takes.
    pub(crate) fn stored(&self, place: &str, dtype: Dtype) -> Result<(Dtype, usize)> {
        let dtype = if let Data::Raw(own, _) = self.data { own } else { dtype };
        let bytes = dtype.bytes(&self.shape).ok_or_else(|| {
            let what = format!("tensor `{}` of shape {:?} cannot be stored as {dtype}", self.name, self.shape);
            Error::new(place, what, "its last axis must be whole blocks and its size must fit in memory")
        })?;
        Ok((dtype, bytes))
    }

    /// Hands its bytes in `dtype` to `write`.
    pub(crate) fn write(&self, place: &str, dtype: Dtype, write: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let made;
        let values = match &self.data {
            Data::Values(values) => *values,
            Data::Made(make) => {
                made = make()?;
                made.as_slice()
            }
            Data::Raw(_, bytes) => {
                let bytes = bytes()?;
                self.check_len(place, "bytes", Some(bytes.len()), dtype.bytes(&self.shape))?;
                return write(&bytes);
            }
        };
        self.check_len(place, "values", Some(values.len()), count(&self.shape))?;
        crate::convert::from_f32(dtype, values, write).map_err(|fault| fault.at(place, &self.name, dtype))
    }

    fn check_len(&self, place: &str, unit: &str, got: Option<usize>, want: Option<usize>) -> Result<()> {
        if got == want {
            return Ok(());
        }
        let what = format!(
            "tensor `{}` of shape {:?} needs {} {unit} and was given {}",
            self.name,
            self.shape,
            want.unwrap_or_default(),
            got.unwrap_or_default()
        );
        Err(Error::new(place, what, "shape and values must be of one tensor"))
    }
}
