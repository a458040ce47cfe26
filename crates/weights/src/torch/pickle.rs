//! A pickle read by an interpreter that can build dictionaries of tensors and nothing else.
//!
//! A pickle is a program for a small stack machine. Objects live in one arena and are named by number, so sharing and
//! cycles cost nothing, nothing is walked, and nesting has no depth. Every global other than those below is refused by
//! name before it could do anything; there is nothing here that could call it.

use std::collections::HashMap;

use qkv_base::{Error, Result};

use super::TRUSTED;
use crate::Dtype;
use crate::cursor::{Cursor, utf8};
use crate::view::View;

/// The most objects: a model of 10,000 tensors makes about 300,000.
const MOST_OBJECTS: usize = 1 << 22;
/// The deepest stack: a dictionary is filled 1000 pairs at a time.
const MOST_STACK: usize = 1 << 16;
/// The longest program.
const MOST_PROGRAM: usize = 64 << 20;
/// The most axes of a tensor.
const MOST_AXES: usize = 64;

/// A name of an object in the arena.
type Id = u32;

/// What a program can make.
#[derive(Clone, Debug)]
pub(crate) enum Object {
    None,
    Bool(bool),
    Int(i128),
    Float,
    Bytes,
    Text(String),
    Tuple(Vec<Id>),
    List(Vec<Id>),
    Dict(Vec<(Id, Id)>),
    Global(Global),
    /// the number of a storage
    Storage(usize),
    Tensor(Box<Tensor>),
}

impl Object {
    /// The kind, in words.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Object::None => "nothing",
            Object::Bool(_) => "a truth value",
            Object::Int(_) | Object::Float => "a number",
            Object::Bytes => "bytes",
            Object::Text(_) => "a text",
            Object::Tuple(_) => "a tuple",
            Object::List(_) => "a list",
            Object::Dict(_) => "a dictionary",
            Object::Global(_) => "a class",
            Object::Storage(_) => "a storage",
            Object::Tensor(_) => "a tensor",
        }
    }
}

/// What a program may name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Global {
    OrderedDict,
    /// of the first kind, without flags; of the second; of the third, which says its type
    RebuildTensor(u8),
    RebuildParameter,
    /// a class of storages: of elements of a type, or of bytes
    Storage(Option<Dtype>),
    Dtype(Dtype),
}

/// A run of elements that tensors view.
#[derive(Clone, Debug)]
pub(crate) struct Storage {
    pub(crate) key: String,
    pub(crate) dtype: Option<Dtype>,
    /// of that type, or bytes
    pub(crate) elements: usize,
}

/// A view of a storage.
#[derive(Clone, Debug)]
pub(crate) struct Tensor {
    pub(crate) storage: usize,
    pub(crate) dtype: Option<Dtype>,
    pub(crate) view: View,
}

/// What a program made.
pub(crate) struct Pickle {
    objects: Vec<Object>,
    top: Id,
    pub(crate) storages: Vec<Storage>,
}

impl Pickle {
    /// Runs the program at the cursor, which is left behind it.
    pub(crate) fn run(cursor: &mut Cursor) -> Result<Self> {
        let mut machine = Machine::default();
        let begin = cursor.at();
        let top = loop {
            if let Some(top) = machine.step(cursor)? {
                break top;
            }
            if cursor.at() - begin > MOST_PROGRAM {
                return Err(cursor.error("its pickle is too long"));
            }
        };
        Ok(Self { objects: machine.objects, top, storages: machine.storages })
    }

    /// What the program left.
    pub(crate) fn top(&self) -> &Object {
        self.get(self.top)
    }

    /// An object by number; numbers come only from the program that made the objects.
    pub(crate) fn get(&self, id: Id) -> &Object {
        &self.objects[id as usize]
    }

    /// The text of that number, if it is one.
    pub(crate) fn text(&self, id: Id) -> Option<&str> {
        if let Object::Text(text) = self.get(id) { Some(text) } else { None }
    }

    /// The value of a key of the dictionary at the top.
    pub(crate) fn item(&self, key: &str) -> Option<&Object> {
        let Object::Dict(pairs) = self.top() else { return None };
        pairs.iter().find(|&&(k, _)| self.text(k) == Some(key)).map(|&(_, v)| self.get(v))
    }
}

/// The whitelist.
fn global(module: &str, name: &str) -> Option<Global> {
    let storage = |dtype| Some(Global::Storage(dtype));
    match (module, name) {
        ("collections", "OrderedDict") => Some(Global::OrderedDict),
        ("torch._utils", "_rebuild_tensor") => Some(Global::RebuildTensor(1)),
        ("torch._utils", "_rebuild_tensor_v2") => Some(Global::RebuildTensor(2)),
        ("torch._utils", "_rebuild_tensor_v3") => Some(Global::RebuildTensor(3)),
        ("torch._utils", "_rebuild_parameter") => Some(Global::RebuildParameter),
        ("torch", "FloatStorage") => storage(Some(Dtype::F32)),
        ("torch", "HalfStorage") => storage(Some(Dtype::F16)),
        ("torch", "BFloat16Storage") => storage(Some(Dtype::BF16)),
        ("torch", "DoubleStorage") => storage(Some(Dtype::F64)),
        ("torch", "ByteStorage") => storage(Some(Dtype::U8)),
        ("torch", "CharStorage") => storage(Some(Dtype::I8)),
        ("torch", "ShortStorage") => storage(Some(Dtype::I16)),
        ("torch", "IntStorage") => storage(Some(Dtype::I32)),
        ("torch", "LongStorage") => storage(Some(Dtype::I64)),
        ("torch", "BoolStorage") => storage(Some(Dtype::Bool)),
        ("torch", "UntypedStorage") | ("torch.storage", "UntypedStorage") => storage(None),
        ("torch", dtype) => Some(Global::Dtype(match dtype {
            "float32" => Dtype::F32,
            "float16" => Dtype::F16,
            "bfloat16" => Dtype::BF16,
            "float64" => Dtype::F64,
            "uint8" => Dtype::U8,
            "uint16" => Dtype::U16,
            "uint32" => Dtype::U32,
            "uint64" => Dtype::U64,
            "int8" => Dtype::I8,
            "int16" => Dtype::I16,
            "int32" => Dtype::I32,
            "int64" => Dtype::I64,
            "bool" => Dtype::Bool,
            _ => return None,
        })),
        _ => None,
    }
}

/// The stack machine.
#[derive(Default)]
struct Machine {
    objects: Vec<Object>,
    stack: Vec<Id>,
    /// lengths of the stack at the marks
    marks: Vec<usize>,
    memo: HashMap<u32, Id>,
    storages: Vec<Storage>,
}

impl Machine {
    /// One instruction; the last one gives the result.
    fn step(&mut self, c: &mut Cursor) -> Result<Option<Id>> {
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

    fn push(&mut self, c: &Cursor, object: Object) -> Result<()> {
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
    fn pop(&mut self, c: &Cursor) -> Result<Id> {
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

    fn get(&self, id: Id) -> &Object {
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
    fn under(&mut self, c: &Cursor) -> Result<&mut Object> {
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
            return Err(c.error("its pickle names a global by something that is no text"));
        };
        self.global(c, &module, &name)
    }

    fn global(&mut self, c: &Cursor, module: &str, name: &str) -> Result<()> {
        match global(module, name) {
            Some(global) => self.push(c, Object::Global(global)),
            None => {
                let shown: String = format!("{module}.{name}").chars().take(200).collect();
                let what = format!("its pickle asks for the unsupported global `{}`", shown.escape_debug());
                Err(Error::new(c.error("").place, what, TRUSTED))
            }
        }
    }

    /// `('storage', class, key, device, elements)`, and `None` or a view in the legacy format.
    fn storage(&mut self, c: &Cursor) -> Result<()> {
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
            ] if tag == "storage" => {
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
        Some(items.iter().map(|&id| self.get(id)).collect())
    }

    fn reduce(&mut self, c: &Cursor) -> Result<()> {
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
    fn ordered_dict(&self, arguments: Id) -> Option<Object> {
        let pairs = match self.fields(arguments)?[..] {
            [] => return Some(Object::Dict(vec![])),
            [Object::List(pairs)] => pairs,
            _ => return None,
        };
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

    /// A `state_dict` carries the versions of its modules as an attribute, which is no weight.
    fn build(&mut self, c: &Cursor) -> Result<()> {
        let state = self.pop(c)?;
        let known = matches!(self.get(state), Object::Dict(_));
        match self.under(c)? {
            Object::Dict(_) if known => Ok(()),
            other => Err(c.error(format!("its pickle gives attributes to {}", other.kind()))),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn run(program: &[u8]) -> Result<Pickle> {
        Pickle::run(&mut Cursor::new("f", program))
    }

    fn refused(program: &[u8]) -> String {
        run(program).err().unwrap().what
    }

    #[test]
    fn numbers_and_texts() {
        let number = |program: &[u8]| match run(program).unwrap().top() {
            Object::Int(n) => *n,
            other => panic!("{other:?}"),
        };
        assert_eq!(number(b"K\xff."), 255);
        assert_eq!(number(b"M\x00\x01."), 256);
        assert_eq!(number(b"J\xff\xff\xff\xff."), -1);
        assert_eq!(number(b"\x8a\x00."), 0);
        assert_eq!(number(b"\x8a\x02\x00\x80."), -32768);
        assert!(refused(b"\x8a\xff.").contains("255 bytes"));
        assert!(refused(b"X\xff\xff\xff\xffabc.").contains("4294967295 bytes, but only 4 are left"));
        assert!(refused(b"X\x01\0\0\0\xff.").contains("UTF-8"));
    }

    #[test]
    fn a_dictionary_through_the_memo() {
        let pickle = run(b"\x80\x02}q\x00(X\x01\0\0\0aK\x01X\x01\0\0\0b\x88uh\x00.").unwrap();
        assert!(matches!(pickle.item("a"), Some(Object::Int(1))));
        assert!(matches!(pickle.item("b"), Some(Object::Bool(true))));
        assert!(pickle.item("c").is_none());
    }

    #[test]
    fn nothing_is_called() {
        let what = refused(b"\x80\x02cos\nsystem\nX\x04\0\0\0true\x85R.");
        assert_eq!(what, "its pickle asks for the unsupported global `os.system`");
        assert!(refused(b"\x8c\x08builtins\x8c\x04eval\x93.").contains("`builtins.eval`"));
        for kind in ["torch._utils\n_rebuild_sparse_tensor", "torch._utils\n_rebuild_qtensor", "torch\nQInt8Storage"] {
            let error = run(format!("c{kind}\n.").as_bytes()).err().unwrap();
            assert!(error.what.contains(&kind.replace('\n', ".")) && error.hint.contains("trusted machine"), "{error}");
        }
        for (program, what) in [
            (&b"i"[..], "instruction 0x69"),
            (b"\x81", "instruction 0x81"),
            (b"K\x01K\x02R.", "calls a number"),
            (b"ccollections\nOrderedDict\nN\x85R.", "calls OrderedDict in an unknown way"),
            (b"N}b.", "gives attributes to nothing"),
            (b"NQ.", "storage in an unknown way"),
        ] {
            assert!(refused(program).contains(what), "{}", refused(program));
        }
    }

    #[test]
    fn crooked_programs_are_errors() {
        for program in [
            &b""[..],
            b".",
            b"(.",
            b"t.",
            b"0.",
            b"a.",
            b"Ne.",
            b"(Nu.",
            b"}(Nu.",
            b"}NNNs.",
            b"q\x00.",
            b"h\x00.",
            b"\x85.",
            b"\x93.",
            b"N(Ns.",
            b"\x8d\xff\xff\xff\xff\xff\xff\xff\xff.",
            b"c.",
            b"cos\n.",
            b"R.",
            b"b.",
        ] {
            assert!(run(program).is_err(), "{program:?}");
        }
    }

    #[test]
    fn bombs_are_cut_short() {
        assert!(refused(&b"]".repeat(1_000_000)).contains("deep"));
        assert!(refused(&b"(".repeat(1_000_000)).contains("deep"));
        assert!(refused(&b"N0".repeat(MOST_OBJECTS + 1)).contains("objects"));
        // A list that holds itself twice over, forty times: nothing is copied and nothing is walked.
        let mut program = b"]q\x00".to_vec();
        for _ in 0..40 {
            program.extend(b"0](h\x00h\x00eq\x00");
        }
        program.push(b'.');
        assert!(run(&program).is_ok());
    }
}
