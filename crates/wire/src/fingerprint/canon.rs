//! The canonical form of a body, and whether it may be shared, from what the scan passes.
//!
//! The form: members sorted by key at every level, those of one key in the order they came; no white space; no
//! comma between members (a key ends by itself); strings respelled ([`super::respell`]); `N.0…` as `N`, every
//! other number by its text; without what the rules leave out.
//!
//! Most of it stands in the body already, so nothing is copied on the way: the form is kept as pieces of the body
//! ([`super::form`]).

use std::ops::Range;

use super::form::{END, Member, Open, PIECES, Piece, Scratch, order, text, wide};
use super::respell::respell;
use super::rules::{Node, Rule, Rules, Test};
use super::{Meaning, Sharing};
use crate::peek::scan::{Number, Quoted, Sink};

/// The longest body that is read for sharing: offsets into it and as much again fit 32 bits.
const LONGEST: usize = 1 << 30;
const TOO_LARGE: &str = "the body's size";

/// Listens to a scan.
pub(crate) struct Listener<'a> {
    body: &'a [u8],
    rules: &'static Rules,
    room: &'a mut Scratch,
    /// Where the next piece begins.
    start: usize,
    last: u32,
    /// Within a member that is left out: one more than the containers that are open in it.
    left_out: u32,
    /// What is known of the next value.
    rule: Option<&'static Rule>,
    below: Option<&'static Node>,
    never: Option<&'static str>,
    temperature: Chance,
    seed: Chance,
}

/// Whether a field takes the chance out of the answer. It may be there twice: then both have to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Chance {
    Unsaid,
    Out,
    In,
}

impl<'a> Listener<'a> {
    pub(crate) fn new(body: &'a [u8], rules: &'static Rules, room: &'a mut Scratch) -> Self {
        room.clear();
        Listener {
            body,
            rules,
            room,
            start: 0,
            last: END,
            left_out: 0,
            rule: None,
            below: None,
            never: (body.len() > LONGEST).then_some(TOO_LARGE),
            temperature: Chance::Unsaid,
            seed: Chance::Unsaid,
        }
    }

    /// What there is to say of a body that was scanned to its end.
    pub(crate) fn finish(mut self) -> Sharing {
        if let Some(why) = self.never {
            return Sharing::Never(why);
        }
        // The last bracket: what was last before it may still be linked as it stood before its object was sorted.
        self.cut(self.body.len());
        let digest = blake3::hash(self.room.gather(self.body)).into();
        let deterministic =
            self.rules.deterministic || self.temperature == Chance::Out || self.seed == Chance::Out;
        Sharing::Allowed(Meaning { digest, deterministic })
    }

    /// Nobody asks for the form any more, or for the value that passes.
    #[inline]
    fn deaf(&self) -> bool {
        self.left_out > 0 || self.never.is_some()
    }

    /// Ends a piece.
    #[inline]
    fn cut(&mut self, end: usize) {
        if self.start < end {
            self.push(self.start..end);
        }
        self.start = end;
    }

    #[inline]
    fn push(&mut self, piece: Range<usize>) {
        let Scratch { pieces, .. } = &mut *self.room;
        // No more than LONGEST and PIECES.
        let (start, end, at) = (piece.start as u32, piece.end as u32, pieces.len() as u32);
        if let Some(last) = pieces.get_mut(self.last as usize) {
            last.next = at;
        }
        pieces.push(Piece { start, end, next: END });
        self.last = at;
        if pieces.len() >= PIECES {
            self.never = Some(TOO_LARGE);
        }
    }

    /// The canonical spelling of a string without its quotes, and where it is to be found.
    #[inline]
    fn spelled(&mut self, string: &Quoted) -> Range<usize> {
        let Range { start, end } = string.span;
        if !string.respellable {
            return start + 1..end - 1;
        }
        let start = self.body.len() + self.room.respelled.len();
        respell(&self.body[string.span.clone()], &mut self.room.respelled);
        start + 1..self.body.len() + self.room.respelled.len() - 1
    }

    fn text(&self, range: Range<usize>) -> &[u8] {
        text(self.body, &self.room.respelled, range)
    }

    /// Looks at a value that is no container.
    #[inline]
    fn scalar(&mut self, value: Range<usize>) {
        if let Some(rule) = self.rule.take() {
            self.judge(rule, value);
        } else if let Some(Open { node: Some(Node { items: Some(item), .. }), object: false, .. }) =
            self.room.open.last()
        {
            // An item that is none of those which are known to be harmless.
            self.never = item.needs.or(self.never);
        }
    }

    /// Puts a value to its rule. Of a container it is given the bracket.
    fn judge(&mut self, rule: &'static Rule, value: Range<usize>) {
        let value = self.text(value);
        let null = value == b"null";
        let (passes, vouches) = match rule.test {
            Test::Any | Test::LeftOut => (true, false),
            Test::Temperature => {
                self.temperature = self.temperature.and(is_zero(value));
                (true, false)
            }
            Test::Seed => {
                self.seed = self.seed.and(!null);
                (true, false)
            }
            _ if null => (true, false),
            Test::Absent => (false, false),
            Test::Off => (value == b"false", true),
            Test::OneOf(words) => (words.iter().any(|word| is_string(value, word)), true),
            Test::Not(word) => (!is_string(value, word), value.starts_with(b"\"")),
            Test::NoScalar => (!matches!(value.first(), Some(b'"' | b'-' | b'0'..=b'9')), false),
            Test::List => (value == b"[", false),
            Test::One => (number(value) == Some(1.0), false),
            Test::NotZero => (!is_zero(value), false),
        };
        if !passes {
            self.never = Some(rule.why);
        } else if vouches && let Some(open) = self.room.open.last_mut() {
            open.vouched = true;
        }
    }
}

impl Sink for Listener<'_> {
    const LISTENS: bool = true;

    #[inline]
    fn space(&mut self, gap: Range<usize>) {
        if !self.deaf() {
            self.cut(gap.start);
            self.start = gap.end;
        }
    }

    #[inline]
    fn open(&mut self, at: usize, object: bool) {
        if self.left_out > 0 {
            self.left_out += 1;
        }
        if self.deaf() {
            return;
        }
        if let Some(rule) = self.rule.take() {
            self.judge(rule, at..at + 1);
        }
        let node = match self.room.open.last() {
            None => Some(self.rules.top),
            Some(outer) if outer.object => self.below.take(),
            Some(outer) => outer.node.and_then(|node| node.items),
        };
        let members = self.room.members.len();
        self.room.open.push(Open { node, object, vouched: false, sorted: true, members, before: END });
    }

    #[inline]
    fn key(&mut self, key: &Quoted) {
        if self.deaf() {
            return;
        }
        self.cut(key.span.start);
        let name = self.spelled(key);
        let Scratch { pieces, members, open, respelled, .. } = &mut *self.room;
        // The scan opened the object that has this key.
        let Some(object) = open.last_mut() else { return };
        let named = |range| text(self.body, respelled, range);
        let rule = object.node.and_then(|node| node.rule(named(name.clone())));
        if matches!(rule, Some(Rule { test: Test::LeftOut, .. })) {
            self.left_out = 1;
            return;
        }
        self.rule = rule;
        self.below = rule.map_or(object.node.and_then(|node| node.others), |rule| rule.below);
        match members[object.members..].last() {
            None => object.before = self.last,
            Some(before) => object.sorted &= order(named(wide(&before.key)), named(name.clone())).is_le(),
        }
        let head = pieces.len() as u32;
        members.push(Member { key: name.start as u32..name.end as u32, head, tail: head });
        if key.respellable {
            self.push(name.start - 1..name.end + 1);
            self.start = key.span.end;
        }
    }

    #[inline]
    fn member_ends(&mut self, at: usize, next: usize) {
        match self.left_out {
            0 if self.never.is_none() => {
                self.cut(at);
                if let Some(member) = self.room.members.last_mut() {
                    member.tail = self.last;
                }
            }
            1 => self.left_out = 0,
            _ => return,
        }
        self.start = next;
    }

    #[inline]
    fn close(&mut self, _at: usize) {
        if self.left_out > 0 {
            self.left_out -= 1;
        }
        if self.deaf() {
            return;
        }
        let Some(closed) = self.room.open.pop() else { return };
        if !closed.object {
            return;
        }
        if !closed.sorted {
            self.last = self.room.sort(self.body, &closed);
        }
        self.room.members.truncate(closed.members);
        if let Some(Node { needs: Some(why), .. }) = closed.node
            && !closed.vouched
        {
            self.never = Some(why);
        }
    }

    #[inline]
    fn string(&mut self, string: &Quoted) {
        if self.deaf() {
            return;
        }
        let inside = self.spelled(string);
        let quoted = inside.start - 1..inside.end + 1;
        if string.respellable {
            self.cut(string.span.start);
            self.push(quoted.clone());
            self.start = string.span.end;
        }
        self.scalar(quoted);
    }

    #[inline]
    fn number(&mut self, number: &Number) {
        if self.deaf() {
            return;
        }
        let Range { start, end } = number.span;
        if let Some(point) = number.point
            && !number.exponent
            && self.body[point + 1..end].iter().all(|&digit| digit == b'0')
        {
            self.cut(point);
            self.start = end;
        }
        self.scalar(start..end);
    }

    #[inline]
    fn word(&mut self, span: Range<usize>) {
        if !self.deaf() {
            self.scalar(span);
        }
    }
}

impl Drop for Listener<'_> {
    fn drop(&mut self) {
        self.room.shrink();
    }
}

impl Chance {
    fn and(self, out: bool) -> Chance {
        if out && self != Chance::In { Chance::Out } else { Chance::In }
    }
}

fn is_string(value: &[u8], word: &str) -> bool {
    value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\"")) == Some(word.as_bytes())
}

/// Whether it is a zero to the last digit: no number that is merely too small to be told from one.
fn is_zero(value: &[u8]) -> bool {
    let mantissa = value.split(|byte| matches!(byte, b'e' | b'E')).next().unwrap_or_default();
    mantissa.contains(&b'0') && mantissa.iter().all(|byte| matches!(byte, b'-' | b'0' | b'.'))
}

fn number(value: &[u8]) -> Option<f64> {
    std::str::from_utf8(value).ok()?.parse().ok()
}
