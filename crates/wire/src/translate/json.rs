//! JSON as requests and answers are written: straight into the body, member by member.

use std::convert::Infallible;

/// Writes a string.
pub(in crate::translate) fn put_text(out: &mut Vec<u8>, text: &str) {
    // Writing a string into memory has no way to fail.
    let _ = serde_json::to_writer(out, text);
}

/// Writes a number.
pub(in crate::translate) fn put_number(out: &mut Vec<u8>, number: u64) {
    let _ = serde_json::to_writer(out, &number);
}

/// An object on its way into a body. Its keys are ours: they need no escapes.
pub(in crate::translate) struct Object<'o> {
    out: &'o mut Vec<u8>,
    empty: bool,
}

impl<'o> Object<'o> {
    /// Begins one.
    pub(in crate::translate) fn begin(out: &'o mut Vec<u8>) -> Object<'o> {
        out.push(b'{');
        Object { out, empty: true }
    }

    /// Begins one with its type.
    pub(in crate::translate) fn typed(out: &'o mut Vec<u8>, kind: &str) -> Object<'o> {
        let mut object = Object::begin(out);
        object.text("type", kind);
        object
    }

    /// What is written, behind the last member.
    pub(in crate::translate) fn out(&mut self) -> &mut Vec<u8> {
        self.out
    }

    /// Begins a member; its value is to be written next.
    pub(in crate::translate) fn key(&mut self, key: &str) -> &mut Vec<u8> {
        if !std::mem::take(&mut self.empty) {
            self.out.push(b',');
        }
        self.out.push(b'"');
        self.out.extend_from_slice(key.as_bytes());
        self.out.extend_from_slice(b"\":");
        self.out
    }

    /// A string.
    pub(in crate::translate) fn text(&mut self, key: &str, text: &str) {
        put_text(self.key(key), text);
    }

    /// A string, if there is one.
    pub(in crate::translate) fn maybe(&mut self, key: &str, text: Option<&str>) {
        if let Some(text) = text {
            self.text(key, text);
        }
    }

    /// A value that is JSON already.
    pub(in crate::translate) fn json(&mut self, key: &str, json: &str) {
        self.key(key).extend_from_slice(json.as_bytes());
    }

    /// A number.
    pub(in crate::translate) fn number(&mut self, key: &str, number: u64) {
        put_number(self.key(key), number);
    }

    /// True or false.
    pub(in crate::translate) fn flag(&mut self, key: &str, flag: bool) {
        self.json(key, if flag { "true" } else { "false" });
    }

    /// A member that is an object.
    pub(in crate::translate) fn object(&mut self, key: &str) -> Object<'_> {
        Object::begin(self.key(key))
    }

    /// Ends it.
    pub(in crate::translate) fn end(self) {
        self.out.push(b'}');
    }
}

/// Writes a list.
pub(in crate::translate) fn put_list<T>(
    out: &mut Vec<u8>,
    items: impl IntoIterator<Item = T>,
    mut write: impl FnMut(T, &mut Vec<u8>),
) {
    let Ok(()) = try_list(out, items, |item, out| {
        write(item, out);
        Ok::<(), Infallible>(())
    });
}

/// Writes a list, up to the first element that can't be said.
pub(in crate::translate) fn try_list<T, E>(
    out: &mut Vec<u8>,
    items: impl IntoIterator<Item = T>,
    mut write: impl FnMut(T, &mut Vec<u8>) -> Result<(), E>,
) -> Result<(), E> {
    out.push(b'[');
    for (at, item) in items.into_iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        write(item, out)?;
    }
    out.push(b']');
    Ok(())
}
