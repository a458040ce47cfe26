//! A pickle read by an interpreter that can build dictionaries of tensors and nothing else.
//!
//! A pickle is a program for a small stack machine ([`super::machine`]); the calls it may make are in [`super::calls`].

use qkv_base::Result;

use super::machine::Machine;
use super::object::{Id, Object, Storage};
use crate::cursor::Cursor;

/// The longest program.
const MOST_PROGRAM: usize = 64 << 20;

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

#[cfg(test)]
mod tests {
    use super::super::machine::MOST_OBJECTS;
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
    fn fault_12_nothing_is_called() {
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
    fn fault_12_bombs_are_cut_short() {
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

    /// What a few bytes can ask for again and again must not be copied each time.
    #[test]
    fn arguments_that_are_used_again_are_short() {
        let pairs = format!("](]q\x02(NNe{}eq\x01", "h\x02".repeat(60_000));
        let mut program = pairs.into_bytes();
        for _ in 0..100 {
            program.extend(b"0ccollections\nOrderedDict\nh\x01\x85R");
        }
        assert!(refused(&program).contains("calls OrderedDict in an unknown way"));

        let mut storage = b"X\x07\0\0\0storageq\x00".to_vec();
        storage.extend(b"0(h\x00ctorch\nFloatStorage\nX\x41\0\0\0");
        storage.extend([b'7'; 65]);
        storage.extend(b"X\x03\0\0\0cpuK\x01tQ.");
        assert!(refused(&storage).contains("describes a storage in an unknown way"));
    }
}
