//! Where a canonical form is put together: pieces of the body, linked.
//!
//! So an object is sorted by linking its members anew, however much is in them, and bytes are copied once, at the
//! end, when the pieces are gathered.

use std::cmp::Ordering;
use std::ops::Range;

use super::rules::Node;

/// The most pieces of a body that is shared. They are a few hundred in a long talk; beyond this bound they would
/// take more room than they are worth.
pub(super) const PIECES: usize = 1 << 18;

/// The most bytes of each kind that are kept from one call to the next.
const KEPT: usize = 1 << 20;

/// The end of the list of pieces.
pub(super) const END: u32 = u32::MAX;

/// Room to read bodies in. Kept between calls, it spares their allocations.
#[derive(Default)]
pub struct Scratch {
    pub(super) pieces: Vec<Piece>,
    /// Those of the objects that are open, innermost last.
    pub(super) members: Vec<Member>,
    pub(super) open: Vec<Open>,
    /// The strings that the body spells otherwise. Their offsets begin where the body's end.
    pub(super) respelled: Vec<u8>,
    form: Vec<u8>,
}

pub(super) struct Piece {
    pub(super) start: u32,
    pub(super) end: u32,
    pub(super) next: u32,
}

pub(super) struct Member {
    /// Without quotes.
    pub(super) key: Range<u32>,
    /// Its first and its last piece.
    pub(super) head: u32,
    pub(super) tail: u32,
}

/// A container that is open.
pub(super) struct Open {
    pub(super) node: Option<&'static Node>,
    pub(super) object: bool,
    pub(super) vouched: bool,
    pub(super) sorted: bool,
    /// Where its members begin.
    pub(super) members: usize,
    /// The piece before its first member.
    pub(super) before: u32,
}

impl Scratch {
    pub(super) fn clear(&mut self) {
        self.pieces.clear();
        self.members.clear();
        self.open.clear();
        self.respelled.clear();
        self.form.clear();
    }

    /// Gives back what one large body took.
    pub(super) fn shrink(&mut self) {
        fn shrink<T>(room: &mut Vec<T>) {
            if room.capacity() * size_of::<T>() > KEPT {
                *room = Vec::new();
            }
        }
        shrink(&mut self.pieces);
        shrink(&mut self.members);
        shrink(&mut self.respelled);
        shrink(&mut self.form);
    }

    /// Links the members of an object in the order of their keys. Gives the piece that is last now.
    pub(super) fn sort(&mut self, body: &[u8], object: &Open) -> u32 {
        let Scratch { pieces, members, respelled, .. } = self;
        let key = |member: &Member| text(body, respelled, wide(&member.key));
        let members = &mut members[object.members..];
        members.sort_unstable_by(|a, b| order(key(a), key(b)).then(a.head.cmp(&b.head)));
        members.iter().fold(object.before, |before, member| {
            pieces[before as usize].next = member.head;
            member.tail
        })
    }

    /// The whole form in one piece.
    pub(super) fn gather(&mut self, body: &[u8]) -> &[u8] {
        self.form.reserve(body.len());
        let mut next = 0;
        while let Some(piece) = self.pieces.get(next as usize) {
            let bytes = text(body, &self.respelled, wide(&(piece.start..piece.end)));
            self.form.extend_from_slice(bytes);
            next = piece.next;
        }
        &self.form
    }
}

/// The order of two keys. Most differ in their first letter, which takes no call to find out.
#[inline]
pub(super) fn order(one: &[u8], other: &[u8]) -> Ordering {
    one.first().cmp(&other.first()).then_with(|| one.cmp(other))
}

/// The bytes of a piece: of the body, or of the respelled strings that are thought to follow it.
#[inline]
pub(super) fn text<'a>(body: &'a [u8], respelled: &'a [u8], range: Range<usize>) -> &'a [u8] {
    match range.start.checked_sub(body.len()) {
        None => &body[range],
        Some(start) => &respelled[start..range.end - body.len()],
    }
}

#[inline]
pub(super) fn wide(range: &Range<u32>) -> Range<usize> {
    range.start as usize..range.end as usize
}
