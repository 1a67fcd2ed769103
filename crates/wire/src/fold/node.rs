//! JSON that grows piece by piece, and keeps the text of all that nobody adds to.
//!
//! Strings grow by the text between their quotes, escapes as they stand: nothing is decoded, and a character whose
//! two `\u` halves came in two pieces is whole again.
//!
//! Invariant: what is written is JSON. Not here: what the values mean.

use serde_json::value::RawValue;

use super::json::{MEMBERS, Members, Object, array, elements, is_blank, is_text};

/// How deep values are looked into. Providers nest four deep; the bound is for the stack.
const DEPTH: usize = 16;

/// A value that grows.
#[derive(Debug)]
pub(super) enum Node {
    /// It came in one piece and stays as it is.
    Whole(Box<RawValue>),
    /// A string: what stands between its quotes.
    Text(String),
    List(Vec<Node>),
    Map(Map),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Null,
    Text,
    List,
    Map,
    /// A number or a boolean.
    Atom,
}

impl Kind {
    fn of(raw: &RawValue) -> Kind {
        match raw.get().as_bytes() {
            [b'n', ..] => Kind::Null,
            [b'"', ..] => Kind::Text,
            [b'[', ..] => Kind::List,
            [b'{', ..] => Kind::Map,
            _ => Kind::Atom,
        }
    }
}

impl Node {
    pub(super) fn of(raw: &RawValue) -> Node {
        Node::Whole(raw.to_owned())
    }

    fn kind(&self) -> Kind {
        match self {
            Node::Whole(raw) => Kind::of(raw),
            Node::Text(_) => Kind::Text,
            Node::List(_) => Kind::List,
            Node::Map(_) => Kind::Map,
        }
    }

    pub(super) fn is_null(&self) -> bool {
        self.kind() == Kind::Null
    }

    /// Adds the next piece of the value that stands under `key`: strings and arrays go on, objects member by
    /// member, numbers and booleans are replaced. None where the pieces don't fit.
    pub(super) fn grow(&mut self, key: &str, more: &RawValue) -> Option<()> {
        self.grow_at(key, more, DEPTH)
    }

    fn grow_at(&mut self, key: &str, more: &RawValue, depth: usize) -> Option<()> {
        let depth = depth.checked_sub(1)?;
        match (self.kind(), Kind::of(more)) {
            (_, Kind::Null) => {}
            (Kind::Null, _) | (Kind::Atom, Kind::Atom) => *self = Node::of(more),
            (Kind::Text, Kind::Text) if is_name(key) => self.repeat(more)?,
            (Kind::Text, Kind::Text) => self.as_text()?.push_str(inner(more)),
            (Kind::List, Kind::List) => {
                let list = self.as_list()?;
                elements(more)?.into_iter().try_for_each(|element| grow_list(list, element, depth))?;
            }
            (Kind::Map, Kind::Map) => {
                let map = self.as_map()?;
                let more = Members::of(more)?;
                more.iter().try_for_each(|(key, raw)| map.grow_at(key, raw, depth))?;
            }
            _ => return None,
        }
        Some(())
    }

    /// Takes a name once more. It may be left empty, but it can't change. Names are never opened, so that they can
    /// be compared as they stand.
    fn repeat(&mut self, more: &RawValue) -> Option<()> {
        let Node::Whole(name) = self else { return None };
        if is_blank(name) {
            *name = more.to_owned();
        }
        (is_blank(more) || name.get() == more.get()).then_some(())
    }

    /// Puts a later state of the value over it: objects member by member, anything else as a whole. What is blank
    /// takes nothing away.
    fn overlay_at(&mut self, more: &RawValue, depth: usize) -> Option<()> {
        let depth = depth.checked_sub(1)?;
        if self.kind() == Kind::Map && Kind::of(more) == Kind::Map {
            let map = self.as_map()?;
            return Members::of(more)?.iter().try_for_each(|(key, raw)| map.overlay_at(key, raw, depth));
        }
        if !is_blank(more) || self.is_null() {
            *self = Node::of(more);
        }
        Some(())
    }

    /// The string, ready to grow.
    pub(super) fn as_text(&mut self) -> Option<&mut String> {
        if let Node::Whole(raw) = self
            && is_text(raw)
        {
            *self = Node::Text(inner(raw).to_owned());
        }
        if let Node::Text(text) = self { Some(text) } else { None }
    }

    /// The elements, ready to be added to.
    pub(super) fn as_list(&mut self) -> Option<&mut Vec<Node>> {
        if let Node::Whole(raw) = self {
            *self = Node::List(elements(raw)?.into_iter().map(numbered).collect::<Option<_>>()?);
        }
        if let Node::List(list) = self { Some(list) } else { None }
    }

    /// The members, ready to be added to.
    pub(super) fn as_map(&mut self) -> Option<&mut Map> {
        if let Node::Whole(raw) = self {
            *self = Node::Map(Map::of(&Members::of(raw)?));
        }
        if let Node::Map(map) = self { Some(map) } else { None }
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        match self {
            Node::Whole(raw) => out.extend_from_slice(raw.get().as_bytes()),
            Node::Text(text) => {
                out.push(b'"');
                out.extend_from_slice(text.as_bytes());
                out.push(b'"');
            }
            Node::List(list) => array(out, list, Node::write),
            Node::Map(map) => map.write(out),
        }
    }
}

/// Keys of what names a thing rather than says it. Many servers repeat them in every piece.
fn is_name(key: &str) -> bool {
    matches!(key, "role" | "type" | "id" | "name" | "index" | "format")
}

/// What stands between the quotes of a string.
fn inner(raw: &RawValue) -> &str {
    raw.get().strip_prefix('"').and_then(|raw| raw.strip_suffix('"')).unwrap_or_default()
}

/// An element of an array, opened where it has an `index` by which its next piece will ask for it.
fn numbered(raw: &RawValue) -> Option<Node> {
    if Kind::of(raw) == Kind::Map {
        let members = Members::of(raw)?;
        if members.get("index").is_some() {
            return Some(Node::Map(Map::of(&members)));
        }
    }
    Some(Node::of(raw))
}

/// Adds an element to an array. One with an `index` goes on with the last one of that index, unless it says by its
/// `id` or `type` that it is another.
fn grow_list(list: &mut Vec<Node>, element: &RawValue, depth: usize) -> Option<()> {
    let members = if Kind::of(element) == Kind::Map { Some(Members::of(element)?) } else { None };
    let same = members.filter(|more| more.get("index").is_some()).and_then(|more| {
        let found =
            list.iter_mut().rev().find(|node| matches!(node, Node::Map(map) if map.is_same(&more)))?;
        Some((found, more))
    });
    match same {
        Some((Node::Map(map), more)) => more.iter().try_for_each(|(key, raw)| map.grow_at(key, raw, depth)),
        _ => {
            list.push(numbered(element)?);
            Some(())
        }
    }
}

/// An object that grows. Its members keep the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Map(Vec<(String, Node)>);

impl Map {
    pub(super) fn of(members: &Members<'_>) -> Map {
        Map(members.iter().map(|(key, raw)| (key.to_owned(), Node::of(raw))).collect())
    }

    pub(super) fn get_mut(&mut self, key: &str) -> Option<&mut Node> {
        self.0.iter_mut().find(|(name, _)| name == key).map(|(_, node)| node)
    }

    fn raw(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(name, _)| name == key).and_then(|(_, node)| match node {
            Node::Whole(raw) => Some(raw.get()),
            _ => None,
        })
    }

    pub(super) fn set(&mut self, key: &str, node: Node) {
        match self.get_mut(key) {
            Some(there) => *there = node,
            None => self.0.push((key.to_owned(), node)),
        }
    }

    pub(super) fn remove(&mut self, key: &str) -> Option<Node> {
        let at = self.0.iter().position(|(name, _)| name == key)?;
        Some(self.0.remove(at).1)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &(String, Node)> {
        self.0.iter()
    }

    /// Adds the next piece of a member, as [`Node::grow`] does.
    pub(super) fn grow(&mut self, key: &str, more: &RawValue) -> Option<()> {
        self.grow_at(key, more, DEPTH)
    }

    fn grow_at(&mut self, key: &str, more: &RawValue, depth: usize) -> Option<()> {
        match self.get_mut(key) {
            Some(node) => node.grow_at(key, more, depth),
            None => self.put(key, more),
        }
    }

    /// Puts a later state of a member over it.
    pub(super) fn overlay(&mut self, key: &str, more: &RawValue) -> Option<()> {
        self.overlay_at(key, more, DEPTH)
    }

    fn overlay_at(&mut self, key: &str, more: &RawValue, depth: usize) -> Option<()> {
        match self.get_mut(key) {
            Some(node) => node.overlay_at(more, depth),
            None => self.put(key, more),
        }
    }

    fn put(&mut self, key: &str, raw: &RawValue) -> Option<()> {
        // The bound keeps a stream of ever new keys from costing the square of its length.
        (self.0.len() < MEMBERS).then(|| self.0.push((key.to_owned(), Node::of(raw))))
    }

    /// Whether a piece with an index is one of this element.
    fn is_same(&self, more: &Members<'_>) -> bool {
        let fits = |key| match (self.raw(key), more.get(key)) {
            (Some(mine), Some(other)) => mine == other.get() || mine == "null" || is_blank(other),
            _ => true,
        };
        self.raw("index") == more.get("index").map(RawValue::get) && fits("id") && fits("type")
    }

    fn write(&self, out: &mut Vec<u8>) {
        let mut object = Object::new();
        for (key, node) in self.iter() {
            object = object.node(key, node);
        }
        out.extend_from_slice(&object.end());
    }
}
