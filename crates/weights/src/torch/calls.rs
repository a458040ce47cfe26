//! What a pickle may call: a storage, a tensor over it, a parameter, a dictionary.
//!
//! A program can use one argument a million times, so whatever a call copies is short: few fields, few axes, short keys.

use qkv_base::Result;

use super::machine::{MOST_OBJECTS, Machine};
use super::object::{Global, Id, Object, Storage, Tensor};
use crate::cursor::Cursor;
use crate::view::View;

/// The most arguments of a call.
const MOST_FIELDS: usize = 16;
/// The most axes of a tensor; no weight has more than five.
const MOST_AXES: usize = 8;
/// The longest key of a storage: a number in decimal.
const MOST_KEY: usize = 64;

impl Machine {
    /// `('storage', class, key, device, elements)`, and `None` or a view in the legacy format.
    pub(super) fn storage(&mut self, c: &Cursor) -> Result<()> {
        let id = self.pop(c)?;
        let fields = self.fields(id).unwrap_or_default();
        let found = match fields[..] {
            [Object::Text(tag), Object::Global(Global::Storage(dtype)), Object::Text(key), _, Object::Int(n)]
            | [
                Object::Text(tag),
                Object::Global(Global::Storage(dtype)),
                Object::Text(key),
                _,
                Object::Int(n),
                Object::None,
            ] if tag == "storage" && key.len() <= MOST_KEY => {
                usize::try_from(*n).ok().map(|elements| Storage { key: key.clone(), dtype: *dtype, elements })
            }
            _ => None,
        };
        let storage = found.ok_or_else(|| c.error("its pickle describes a storage in an unknown way"))?;
        self.storages.push(storage);
        self.push(c, Object::Storage(self.storages.len() - 1))
    }

    /// What a tuple holds.
    fn fields(&self, id: Id) -> Option<Vec<&Object>> {
        let Object::Tuple(items) = self.get(id) else { return None };
        if items.len() > MOST_FIELDS {
            return None;
        }
        Some(items.iter().map(|&id| self.get(id)).collect())
    }

    pub(super) fn reduce(&mut self, c: &Cursor) -> Result<()> {
        let (arguments, callee) = (self.pop(c)?, self.pop(c)?);
        let Object::Global(global) = *self.get(callee) else {
            return Err(c.error(format!("its pickle calls {}", self.get(callee).kind())));
        };
        let made = match global {
            Global::OrderedDict => self.ordered_dict(arguments),
            Global::RebuildTensor(version) => self.tensor(arguments, version),
            Global::RebuildParameter => self.parameter(arguments),
            Global::Storage(_) | Global::Dtype(_) => None,
        };
        let made = made.ok_or_else(|| c.error(format!("its pickle calls {global:?} in an unknown way")))?;
        self.push(c, made)
    }

    /// Empty, or from a list of pairs.
    fn ordered_dict(&mut self, arguments: Id) -> Option<Object> {
        let length = match self.fields(arguments)?[..] {
            [] => return Some(Object::Dict(vec![])),
            [Object::List(pairs)] => pairs.len(),
            _ => return None,
        };
        self.copied += length;
        if self.copied > MOST_OBJECTS {
            return None;
        }
        let [Object::List(pairs)] = self.fields(arguments)?[..] else { return None };
        let pair = |&id: &Id| match self.get(id) {
            Object::Tuple(pair) | Object::List(pair) if pair.len() == 2 => Some((pair[0], pair[1])),
            _ => None,
        };
        pairs.iter().map(pair).collect::<Option<_>>().map(Object::Dict)
    }

    /// `(storage, offset, shape, strides, …)`; the third version says the type in its seventh place.
    fn tensor(&self, arguments: Id, version: u8) -> Option<Object> {
        let fields = self.fields(arguments)?;
        let [Object::Storage(storage), Object::Int(offset), shape, strides, rest @ ..] = &fields[..] else {
            return None;
        };
        let dtype = match (version, rest) {
            (1 | 2, _) => None,
            (_, [_, _, Object::Global(Global::Dtype(dtype)), ..]) => Some(*dtype),
            _ => return None,
        };
        let (shape, strides) = (self.sizes(shape)?, self.sizes(strides)?);
        let offset = usize::try_from(*offset).ok()?;
        let view = View { offset, shape, strides };
        (view.shape.len() == view.strides.len())
            .then(|| Object::Tensor(Box::new(Tensor { storage: *storage, dtype, view })))
    }

    fn sizes(&self, object: &Object) -> Option<Vec<usize>> {
        let Object::Tuple(items) = object else { return None };
        if items.len() > MOST_AXES {
            return None;
        }
        let size = |&id: &Id| match self.get(id) {
            Object::Int(n) => usize::try_from(*n).ok(),
            _ => None,
        };
        items.iter().map(size).collect()
    }

    /// `(tensor, requires_grad, hooks)`.
    fn parameter(&self, arguments: Id) -> Option<Object> {
        match self.fields(arguments)?[..] {
            [tensor @ Object::Tensor(_), ..] => Some(tensor.clone()),
            _ => None,
        }
    }

    /// A `state_dict` carries the versions of its modules as an attribute, which is not a weight.
    pub(super) fn build(&mut self, c: &Cursor) -> Result<()> {
        let state = self.pop(c)?;
        let known = matches!(self.get(state), Object::Dict(_));
        match self.under(c)? {
            Object::Dict(_) if known => Ok(()),
            other => Err(c.error(format!("its pickle gives attributes to {}", other.kind()))),
        }
    }
}
