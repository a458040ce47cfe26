//! What the program of a pickle can make, and the few names that it may use.

use crate::Dtype;
use crate::view::View;

/// A name of an object in the arena.
pub(super) type Id = u32;

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

/// The whitelist.
pub(super) fn global(module: &str, name: &str) -> Option<Global> {
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
