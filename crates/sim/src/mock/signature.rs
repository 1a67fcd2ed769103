//! Signatures of thoughts: that this mock wrote them, for which text, and behind what.
//!
//! A thought is bound to all that stands before it: tools, system and every block of every turn, but for
//! `cache_control`, whether a text stands alone or in a list, and how a turn is cut into messages. Thoughts
//! are no part of that; each names the one before it instead, so the first ones of a conversation can be left
//! out, and one between others cannot.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::hash::{Hash, draw};

/// A place in a conversation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    said: u64,
    /// The thought before it; 0 where there is none.
    thought: u64,
}

impl Place {
    /// Whether a thought of that place may stand at this one.
    pub(crate) fn takes(self, signed: Self) -> bool {
        self.said == signed.said && (self.thought == 0 || self.thought == signed.thought)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Signature {
    shown: bool,
    text: u64,
    pub(crate) place: Place,
}

impl Signature {
    /// Of a thought; nothing is left of its text where it is not shown.
    pub(crate) fn new(text: &str, shown: bool, place: Place) -> Self {
        Self { shown, text: hash(text), place }
    }

    /// None for what this mock did not write.
    pub(crate) fn read(signature: &str) -> Option<Self> {
        let bytes = STANDARD.decode(signature).ok()?;
        let parts: Vec<u64> = bytes
            .chunks_exact(8)
            .map(|part| u64::from_le_bytes(part.try_into().unwrap_or_default()))
            .collect();
        let [shown, text, said, thought, ..] = parts[..] else { return None };
        let read = Self { shown: shown == 1, text, place: Place { said, thought } };
        (read.bytes() == bytes).then_some(read)
    }

    pub(crate) fn write(&self) -> String {
        STANDARD.encode(self.bytes())
    }

    fn bytes(&self) -> Vec<u8> {
        let parts = [u64::from(self.shown), self.text, self.place.said, self.place.thought];
        let seal = parts.iter().fold(Hash::new(3), |hash, part| hash.number(*part)).finish();
        parts.iter().chain(&[seal, draw(seal, 1)]).flat_map(|part| part.to_le_bytes()).collect()
    }

    /// Whether the thought came back as it was sent.
    pub(crate) fn is_of(&self, text: &str) -> bool {
        if self.shown { self.text == hash(text) } else { text.is_empty() }
    }
}

fn hash(text: &str) -> u64 {
    Hash::new(2).text(text).finish()
}

/// Reads a conversation of Messages from its start.
pub(crate) struct Conversation<'a> {
    said: Hash,
    role: &'a str,
    thought: u64,
}

impl<'a> Conversation<'a> {
    /// As far as tools and system go.
    pub(crate) fn new(request: &Value) -> Self {
        let said = typed(Hash::new(4), &request["tools"]);
        let said = listed(said.number(1), &request["system"]);
        Self { said, role: "", thought: 0 }
    }

    /// Where the answer will stand.
    pub(crate) fn end(request: &'a Value) -> Place {
        let mut conversation = Self::new(request);
        for message in request["messages"].as_array().into_iter().flatten() {
            conversation.message(message["role"].as_str().unwrap_or_default());
            match &message["content"] {
                Value::Array(blocks) => blocks.iter().for_each(|block| conversation.block(block)),
                text => conversation.block(&text_block(text)),
            }
        }
        conversation.message("assistant");
        conversation.place()
    }

    /// Messages of one role in a row are one turn.
    pub(crate) fn message(&mut self, role: &'a str) {
        if self.role != role {
            self.said = self.said.number(2).text(role);
            self.role = role;
        }
    }

    pub(crate) fn block(&mut self, block: &Value) {
        let seal = match block["type"].as_str() {
            Some("thinking") => &block["signature"],
            Some("redacted_thinking") => &block["data"],
            _ => {
                self.said = typed(self.said, block);
                return;
            }
        };
        self.thought = hash(seal.as_str().unwrap_or_default());
    }

    pub(crate) fn place(&self) -> Place {
        Place { said: self.said.finish(), thought: self.thought }
    }
}

pub(crate) fn text_block(text: &Value) -> Value {
    json!({"type": "text", "text": text})
}

/// A content: blocks, or the text of one.
fn listed(hash: Hash, content: &Value) -> Hash {
    match content {
        Value::String(_) => typed(hash, &json!([text_block(content)])),
        _ => typed(hash, content),
    }
}

/// What the provider has a form for: fields may come in any order, and one that is null is not there.
fn typed(hash: Hash, value: &Value) -> Hash {
    match value {
        Value::Object(fields) => {
            let mut told: Vec<(&str, &Value)> = fields
                .iter()
                .map(|(name, field)| (name.as_str(), field))
                .filter(|(name, field)| *name != "cache_control" && !field.is_null())
                .collect();
            told.sort_unstable_by_key(|(name, _)| *name);
            told.iter().fold(hash.number(3).number(told.len() as u64), |hash, (name, field)| {
                let hash = hash.text(name);
                match *name {
                    "input" | "input_schema" => free(hash, field),
                    "content" => listed(hash, field),
                    _ => typed(hash, field),
                }
            })
        }
        Value::Array(items) => items.iter().fold(hash.number(4).number(items.len() as u64), typed),
        other => free(hash, other),
    }
}

/// What is the client's own is shown to the model as it is, so its order counts, too.
fn free(hash: Hash, value: &Value) -> Hash {
    hash.number(5).text(&value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_holds_for_its_text_alone() {
        let sign = |shown| Signature::new("thought", shown, Place::default()).write();
        let holds =
            |text: &str, signature: &str| Signature::read(signature).is_some_and(|read| read.is_of(text));
        let (signed, hidden) = (sign(true), sign(false));
        assert!(holds("thought", &signed) && !holds("other", &signed) && !holds("", &signed));
        assert!(holds("", &hidden) && !holds("thought", &hidden));
        for forged in ["", "AAAA", "not base64!", &signed[..40], &STANDARD.encode([0; 48])] {
            assert_eq!(Signature::read(forged), None, "{forged}");
        }
    }

    fn request(messages: Value) -> Value {
        json!({
            "tools": [{"name": "f", "input_schema": {"type": "object", "properties": {}}}],
            "system": "be brief",
            "messages": messages,
        })
    }

    fn asked() -> Value {
        request(json!([{"role": "user", "content": "why?"}]))
    }

    #[test]
    fn the_same_conversation_in_another_form_is_the_same_place() {
        let text = |text: &str, more: Value| {
            let mut block = text_block(&text.into());
            block.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            block
        };
        let marked = json!({"cache_control": {"type": "ephemeral"}, "citations": null});
        let mut other = request(json!([{"content": [text("why?", marked.clone())], "role": "user"}]));
        other["system"] = json!([text("be brief", marked)]);
        other["tools"] = json!([{
            "input_schema": {"type": "object", "properties": {}}, "cache_control": {"type": "ephemeral"}, "name": "f",
        }]);
        assert_eq!(Conversation::end(&asked()), Conversation::end(&other));

        let cut = request(json!([{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]));
        let whole =
            request(json!([{"role": "user", "content": [text("a", json!({})), text("b", json!({}))]}]));
        assert_eq!(Conversation::end(&cut), Conversation::end(&whole));
        let result = |content: Value| {
            let block = json!({"type": "tool_result", "tool_use_id": "a", "content": content});
            request(json!([{"role": "user", "content": [block]}]))
        };
        assert_eq!(
            Conversation::end(&result("18".into())),
            Conversation::end(&result(json!([text_block(&"18".into())])))
        );
    }

    #[test]
    fn anything_else_that_changes_is_another_place() {
        let change = |path: &str, value: Value| {
            let mut request = asked();
            *request.pointer_mut(path).unwrap() = value;
            request
        };
        for other in [
            change("/messages/0/content", "Why?".into()),
            change("/messages/0/role", "system".into()),
            change("/system", "be briefer".into()),
            change("/system", json!([text_block(&"be".into()), text_block(&" brief".into())])),
            change("/tools", json!([])),
            change("/tools/0/name", "g".into()),
            change("/tools/0/input_schema", json!({"properties": {}, "type": "object"})),
        ] {
            assert_ne!(Conversation::end(&asked()), Conversation::end(&other), "{other}");
        }
    }

    #[test]
    fn first_thoughts_can_be_left_out_and_others_cannot() {
        let thought = |name: &str| json!({"type": "thinking", "thinking": "", "signature": name});
        let after = |thoughts: &[&str]| {
            let mut conversation = Conversation::new(&asked());
            thoughts.iter().for_each(|name| conversation.block(&thought(name)));
            conversation.place()
        };
        let made = after(&["a", "b"]);
        assert!(after(&["a", "b"]).takes(made) && after(&["b"]).takes(made) && after(&[]).takes(made));
        assert!(!after(&["a"]).takes(made) && !after(&["b", "a"]).takes(made));
        assert!(!after(&["a"]).takes(after(&[])));
    }
}
