//! The ids by which results find their calls: plain, unique, and every call answered in the next turn.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};

use crate::translate::Unfit;
use crate::translate::names::plain;

/// The longest id that is sent.
const LONGEST: usize = 256;

/// Room for a number behind it.
const NUMBER: usize = 24;

/// The ids of one request.
#[derive(Default)]
pub(super) struct Ids<'a> {
    /// Those that were sent, with the number that one more of the same would get.
    used: HashMap<Cow<'a, str>, usize>,
    /// Calls without a result so far, by the client's ids.
    open: HashMap<&'a str, VecDeque<Open<'a>>>,
    /// The last call: the client's message, and which call of it.
    last: Option<(usize, usize)>,
}

struct Open<'a> {
    theirs: Cow<'a, str>,
    at: (usize, usize),
}

impl<'a> Ids<'a> {
    /// The id of a call, and which call of its message it is. Servers that number the calls of each answer anew give
    /// the same one twice.
    pub(super) fn call(&mut self, ours: &'a str, at: usize) -> (Cow<'a, str>, usize) {
        let call = self.last.filter(|(before, _)| *before == at).map_or(0, |(_, call)| call + 1);
        self.last = Some((at, call));
        let plain = plain(ours, LONGEST);
        let mut theirs = plain.clone();
        while self.used.contains_key(&theirs) {
            let next = self.used.entry(plain.clone()).or_insert(2);
            theirs = Cow::Owned(format!("{}_{next}", &plain[..plain.len().min(LONGEST - NUMBER)]));
            *next += 1;
        }
        self.used.insert(theirs.clone(), 2);
        self.open.entry(ours).or_default().push_back(Open { theirs: theirs.clone(), at: (at, call) });
        (theirs, call)
    }

    /// The id of the call that this is the result of.
    pub(super) fn result(&mut self, ours: &str, at: usize) -> Result<Cow<'a, str>, Unfit> {
        let calls = self.open.get_mut(ours);
        let Some(open) = calls.and_then(VecDeque::pop_front) else {
            return Err(Unfit::new(
                format!("messages[{at}].tool_call_id"),
                "the message of the assistant before it has no call of this id that is not answered yet",
            ));
        };
        if self.open.get(ours).is_some_and(VecDeque::is_empty) {
            self.open.remove(ours);
        }
        Ok(open.theirs)
    }

    /// That no call is without its result.
    pub(super) fn settle(&self) -> Result<(), Unfit> {
        match self.open.values().flatten().map(|open| open.at).min() {
            None => Ok(()),
            Some((at, call)) => Err(Unfit::new(
                format!("messages[{at}].tool_calls[{call}]"),
                "a message with the result of this call has to follow",
            )),
        }
    }
}
