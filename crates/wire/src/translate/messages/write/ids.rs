//! The ids by which results find their calls: plain, unique, and every call answered in the next turn.

use std::borrow::Cow;
use std::collections::HashSet;

use crate::translate::Unfit;
use crate::translate::names::plain;

/// The longest id that is sent.
const LONGEST: usize = 256;

/// The ids of one request.
#[derive(Default)]
pub(super) struct Ids<'a> {
    used: HashSet<Cow<'a, str>>,
    open: Vec<Open<'a>>,
}

struct Open<'a> {
    ours: &'a str,
    theirs: Cow<'a, str>,
    /// The field of the call, for complaints.
    at: usize,
    call: usize,
}

impl<'a> Ids<'a> {
    /// The id of a call, and which call of its message it is. Servers that number the calls of each answer anew give the same one twice.
    pub(super) fn call(&mut self, ours: &'a str, at: usize) -> (Cow<'a, str>, usize) {
        let mut theirs = plain(ours, LONGEST);
        for turn in 2.. {
            if self.used.insert(theirs.clone()) {
                break;
            }
            theirs = plain(ours, LONGEST - 24).into_owned().into();
            theirs.to_mut().push_str(&format!("_{turn}"));
        }
        let call = self.open.iter().filter(|open| open.at == at).count();
        self.open.push(Open { ours, theirs: theirs.clone(), at, call });
        (theirs, call)
    }

    /// The id of the call that this is the result of.
    pub(super) fn result(&mut self, ours: &str, at: usize) -> Result<Cow<'a, str>, Unfit> {
        match self.open.iter().position(|open| open.ours == ours) {
            Some(found) => Ok(self.open.remove(found).theirs),
            None => Err(Unfit::new(
                format!("messages[{at}].tool_call_id"),
                "the message of the assistant before it has no call of this id that is not answered yet",
            )),
        }
    }

    /// That no call is without its result.
    pub(super) fn settle(&self) -> Result<(), Unfit> {
        match self.open.first() {
            None => Ok(()),
            Some(open) => Err(Unfit::new(
                format!("messages[{}].tool_calls[{}]", open.at, open.call),
                "a message with the result of this call has to follow",
            )),
        }
    }
}
