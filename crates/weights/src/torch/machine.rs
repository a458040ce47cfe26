//! The stack machine that runs a pickle: its instructions, its stack, its memo.
//!
//! Objects live in one arena and are named by number, so sharing and cycles cost nothing, nothing is walked, and nesting
//! has no depth. Every global that is not on the list is refused by name before it could do anything.

use std::collections::HashMap;

use qkv_base::{Error, Result};

use super::TRUSTED;
use super::object::{self, Id, Object, Storage};
use crate::cursor::{Cursor, utf8};

/// The most objects: a model of 10,000 tensors makes about 300,000.
pub(super) const MOST_OBJECTS: usize = 1 << 22;
/// The deepest stack: a dictionary is filled 1000 pairs at a time.
const MOST_STACK: usize = 1 << 16;

/// The stack machine.
#[derive(Default)]
pub(super) struct Machine {
    pub(super) objects: Vec<Object>,
    stack: Vec<Id>,
    /// lengths of the stack at the marks
    marks: Vec<usize>,
    memo: HashMap<u32, Id>,
    pub(super) storages: Vec<Storage>,
    /// pairs that were copied from lists into dictionaries
    pub(super) copied: usize,
}

impl Machine {
    /// One instruction; the last one gives the result.
    pub(super) fn step(&mut self, c: &mut Cursor) -> Result<Option<Id>> {
        match c.u8("an instruction of the pickle")? {
            b'.' => return self.pop(c).map(Some),
            0x80 => drop(c.u8("the protocol")?), // PROTO
            0x95 => drop(c.u64("a frame")?),     // FRAME
            b'(' => self.mark(c)?,
            b'0' => drop(self.pop(c)?), // POP
            b'N' => self.push(c, Object::None)?,
            0x88 => self.push(c, Object::Bool(true))?,
            0x89 => self.push(c, Object::Bool(false))?,
            b'K' => self.int::<1>(c, false)?, // BININT1
            b'M' => self.int::<2>(c, false)?, // BININT2
            b'J' => self.int::<4>(c, true)?,  // BININT
            0x8a => self.long(c)?,            // LONG1
            b'G' => {
                c.array::<8>("a number")?;
                self.push(c, Object::Float)?;
            }
            0x8c => self.text::<1>(c)?,  // SHORT_BINUNICODE
            b'X' => self.text::<4>(c)?,  // BINUNICODE
            0x8d => self.text::<8>(c)?,  // BINUNICODE8
            b'U' => self.text::<1>(c)?,  // SHORT_BINSTRING, from Python 2
            b'T' => self.text::<4>(c)?,  // BINSTRING, likewise
            b'C' => self.bytes::<1>(c)?, // SHORT_BINBYTES
            b'B' => self.bytes::<4>(c)?, // BINBYTES
            b')' => self.push(c, Object::Tuple(vec![]))?,
            0x85 => self.tuple(c, 1)?,
            0x86 => self.tuple(c, 2)?,
            0x87 => self.tuple(c, 3)?,
            b't' => {
                let items = self.since_mark(c)?;
                self.push(c, Object::Tuple(items))?;
            }
            b']' => self.push(c, Object::List(vec![]))?,
            b'a' => {
                let item = self.pop(c)?;
                self.append(c, vec![item])?;
            }
            b'e' => {
                let items = self.since_mark(c)?;
                self.append(c, items)?;
            }
            b'}' => self.push(c, Object::Dict(vec![]))?,
            b's' => {
                let (value, key) = (self.pop(c)?, self.pop(c)?);
                self.set(c, vec![key, value])?;
            }
            b'u' => {
                let items = self.since_mark(c)?;
                self.set(c, items)?;
            }
            b'q' => self.put(c, false)?, // BINPUT
            b'r' => self.put(c, true)?,  // LONG_BINPUT
            0x94 => {
                let next = self.memo.len() as u32; // MEMOIZE
                self.remember(c, next)?;
            }
            b'h' => self.fetch(c, false)?,   // BINGET
            b'j' => self.fetch(c, true)?,    // LONG_BINGET
            b'c' => self.named(c)?,          // GLOBAL
            0x93 => self.named_by_stack(c)?, // STACK_GLOBAL
            b'Q' => self.storage(c)?,        // BINPERSID
            b'R' => self.reduce(c)?,
            b'b' => self.build(c)?,
            other => {
                let what = format!("its pickle uses instruction {other:#04x}, which tensors do not need");
                return Err(Error::new(c.error("").place, what, TRUSTED));
            }
        }
        Ok(None)
    }

    pub(super) fn push(&mut self, c: &Cursor, object: Object) -> Result<()> {
        if self.objects.len() >= MOST_OBJECTS {
            return Err(c.error(format!("its pickle makes more than {MOST_OBJECTS} objects")));
        }
        self.objects.push(object);
        self.push_id(c, self.objects.len() as Id - 1)
    }

    fn push_id(&mut self, c: &Cursor, id: Id) -> Result<()> {
        if self.stack.len() >= MOST_STACK {
            return Err(c.error(format!("its pickle nests more than {MOST_STACK} deep")));
        }
        self.stack.push(id);
        Ok(())
    }

    /// The top of the stack, down to the last mark at most.
    pub(super) fn pop(&mut self, c: &Cursor) -> Result<Id> {
        if self.stack.len() <= self.marks.last().copied().unwrap_or(0) {
            return Err(c.error("its pickle takes from an empty stack"));
        }
        self.stack.pop().ok_or_else(|| c.error("its pickle takes from an empty stack"))
    }

    fn mark(&mut self, c: &Cursor) -> Result<()> {
        if self.marks.len() >= MOST_STACK {
            return Err(c.error(format!("its pickle nests more than {MOST_STACK} deep")));
        }
        self.marks.push(self.stack.len());
        Ok(())
    }

    fn since_mark(&mut self, c: &Cursor) -> Result<Vec<Id>> {
        let mark = self.marks.pop().ok_or_else(|| c.error("its pickle has no mark"))?;
        Ok(self.stack.split_off(mark))
    }

    pub(super) fn get(&self, id: Id) -> &Object {
        &self.objects[id as usize]
    }

    fn int<const N: usize>(&mut self, c: &mut Cursor, signed: bool) -> Result<()> {
        let bytes = c.array::<N>("a whole number")?;
        self.push(c, Object::Int(whole(&bytes, signed)))
    }

    fn long(&mut self, c: &mut Cursor) -> Result<()> {
        let length = c.u8("a long number")?;
        if length > 15 {
            return Err(c.error(format!("its pickle holds a number of {length} bytes")));
        }
        let bytes = c.take(length.into(), "a long number")?;
        self.push(c, Object::Int(whole(bytes, true)))
    }

    fn text<const N: usize>(&mut self, c: &mut Cursor) -> Result<()> {
        let length = whole(&c.array::<N>("a text")?, false) as u64;
        let bytes = c.take(length, "a text")?;
        let text = utf8(&c.error("").place, bytes, "a text of its pickle")?.to_owned();
        self.push(c, Object::Text(text))
    }

    fn bytes<const N: usize>(&mut self, c: &mut Cursor) -> Result<()> {
        let length = whole(&c.array::<N>("bytes")?, false) as u64;
        c.take(length, "bytes")?;
        self.push(c, Object::Bytes)
    }

    fn tuple(&mut self, c: &Cursor, n: usize) -> Result<()> {
        let mut items = Vec::with_capacity(n);
        for _ in 0..n {
            items.push(self.pop(c)?);
        }
        items.reverse();
        self.push(c, Object::Tuple(items))
    }

    /// The object under what has just been taken off, still on the stack.
    pub(super) fn under(&mut self, c: &Cursor) -> Result<&mut Object> {
        let id = self.pop(c)?;
        self.stack.push(id);
        Ok(&mut self.objects[id as usize])
    }

    fn append(&mut self, c: &Cursor, items: Vec<Id>) -> Result<()> {
        match self.under(c)? {
            Object::List(list) => list.extend(items),
            other => return Err(c.error(format!("its pickle appends to {}", other.kind()))),
        }
        Ok(())
    }

    /// Keys and values in turn. A key that comes again is kept beside the first, and found out later.
    fn set(&mut self, c: &Cursor, items: Vec<Id>) -> Result<()> {
        let (pairs, []) = items.as_chunks::<2>() else { return Err(c.error("its pickle has a key without a value")) };
        match self.under(c)? {
            Object::Dict(dict) => dict.extend(pairs.iter().map(|&[k, v]| (k, v))),
            other => return Err(c.error(format!("its pickle sets an item of {}", other.kind()))),
        }
        Ok(())
    }

    fn number(&mut self, c: &mut Cursor, long: bool) -> Result<u32> {
        if long { c.u32("a place in the memo") } else { Ok(c.u8("a place in the memo")?.into()) }
    }

    fn put(&mut self, c: &mut Cursor, long: bool) -> Result<()> {
        let number = self.number(c, long)?;
        self.remember(c, number)
    }

    /// A place is written once in an honest program; to hold more places than objects would be a bomb.
    fn remember(&mut self, c: &Cursor, number: u32) -> Result<()> {
        let id = self.pop(c)?;
        self.stack.push(id);
        self.memo.insert(number, id);
        if self.memo.len() > MOST_OBJECTS {
            return Err(c.error("its pickle remembers too much"));
        }
        Ok(())
    }

    fn fetch(&mut self, c: &mut Cursor, long: bool) -> Result<()> {
        let number = self.number(c, long)?;
        let id = *self.memo.get(&number).ok_or_else(|| c.error(format!("its pickle never stored {number}")))?;
        self.push_id(c, id)
    }

    fn named(&mut self, c: &mut Cursor) -> Result<()> {
        let (module, name) = (c.line("a global")?, c.line("a global")?);
        self.global(c, &String::from_utf8_lossy(module), &String::from_utf8_lossy(name))
    }

    fn named_by_stack(&mut self, c: &mut Cursor) -> Result<()> {
        let (name, module) = (self.pop(c)?, self.pop(c)?);
        let (Object::Text(module), Object::Text(name)) = (self.get(module).clone(), self.get(name).clone()) else {
            return Err(c.error("its pickle names a global by something that is not text"));
        };
        self.global(c, &module, &name)
    }

    fn global(&mut self, c: &Cursor, module: &str, name: &str) -> Result<()> {
        match object::global(module, name) {
            Some(global) => self.push(c, Object::Global(global)),
            None => {
                let shown: String = format!("{module}.{name}").chars().take(200).collect();
                let what = format!("its pickle asks for the unsupported global `{}`", shown.escape_debug());
                Err(Error::new(c.error("").place, what, TRUSTED))
            }
        }
    }
}

/// A little-endian whole number of up to 15 bytes.
fn whole(bytes: &[u8], signed: bool) -> i128 {
    let negative = signed && bytes.last().is_some_and(|&b| b >= 128);
    let mut wide = [if negative { 255 } else { 0 }; 16];
    wide[..bytes.len()].copy_from_slice(bytes);
    i128::from_le_bytes(wide)
}
