//! Reads a prompt once: how long it is, what tells it from others, what it shares with earlier ones, what
//! the user said last, and which images and documents are in it.
//!
//! Text counts a token per four bytes, everything else a fixed number, as nobody's tokenizer is here.

use serde_json::Value;

use super::hash::Hash;
use super::prefix_cache::{PrefixHasher, PrefixMark};

const TOKENS_PER_MESSAGE: u64 = 4;
const TOKENS_PER_IMAGE: u64 = 765;
const TOKENS_PER_SMALL_IMAGE: u64 = 85;
const TOKENS_PER_DOCUMENT: u64 = 1_500;
const TOKENS_PER_AUDIO: u64 = 300;

/// Fields that say how a part is handled, and not what it says.
const SILENT_FIELDS: [&str; 3] = ["type", "cache_control", "prompt_cache_breakpoint"];

pub(crate) struct PromptReader {
    hasher: PrefixHasher,
    pub(crate) images: u64,
    pub(crate) documents: u64,
}

/// What was read.
pub(crate) struct Prompt {
    pub(crate) seed: u64,
    pub(crate) tokens: u64,
    pub(crate) images: u64,
    pub(crate) documents: u64,
    pub(crate) marks: Vec<PrefixMark>,
}

/// Prompts share prefixes where the same account asks the same model.
pub(crate) fn scope(model: &str, credential: Option<&str>) -> u64 {
    Hash::new(1).text(model).text(credential.unwrap_or_default()).finish()
}

impl PromptReader {
    /// The model is part of what shapes the answer.
    pub(crate) fn new(model: &str, mut hasher: PrefixHasher) -> Self {
        hasher.tell_apart(model.as_bytes());
        Self { hasher, images: 0, documents: 0 }
    }

    pub(crate) fn message(&mut self, role: &str) {
        self.hasher.tell_apart(role.as_bytes());
        self.hasher.weigh(TOKENS_PER_MESSAGE);
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.hasher.feed(text.as_bytes());
    }

    /// Marks the end of a block, for the cache.
    pub(crate) fn mark(&mut self, kept: bool) {
        self.hasher.mark(kept);
    }

    /// A content, part, tool or anything else that a prompt is made of.
    pub(crate) fn value(&mut self, value: &Value) {
        match value {
            Value::Null => {}
            Value::Bool(_) | Value::Number(_) => self.text(&value.to_string()),
            Value::String(text) => self.text(text),
            Value::Array(items) => items.iter().for_each(|item| self.value(item)),
            Value::Object(_) => self.object(value),
        }
    }

    fn object(&mut self, value: &Value) {
        match value["type"].as_str() {
            Some("text" | "input_text" | "output_text") if value["text"].is_string() => {
                self.text(value["text"].as_str().unwrap_or_default());
            }
            Some("image_url" | "input_image" | "image") => {
                self.images += 1;
                let low = value["image_url"]["detail"] == "low" || value["detail"] == "low";
                self.media(value, if low { TOKENS_PER_SMALL_IMAGE } else { TOKENS_PER_IMAGE });
            }
            Some("document" | "file" | "input_file") => {
                self.documents += 1;
                self.media(value, TOKENS_PER_DOCUMENT);
            }
            Some("input_audio") => self.media(value, TOKENS_PER_AUDIO),
            _ => self.fields(value),
        }
    }

    fn fields(&mut self, value: &Value) {
        for (name, field) in value.as_object().into_iter().flatten() {
            if !SILENT_FIELDS.contains(&name.as_str()) {
                self.text(name);
                self.value(field);
            }
        }
    }

    fn media(&mut self, value: &Value, tokens: u64) {
        self.hasher.weigh(tokens);
        self.tell_apart(value);
    }

    fn tell_apart(&mut self, value: &Value) {
        match value {
            Value::String(text) => self.hasher.tell_apart(text.as_bytes()),
            Value::Array(items) => items.iter().for_each(|item| self.tell_apart(item)),
            Value::Object(fields) => {
                let telling = fields.iter().filter(|(name, _)| !SILENT_FIELDS.contains(&name.as_str()));
                telling.for_each(|(_, field)| self.tell_apart(field));
            }
            _ => {}
        }
    }

    pub(crate) fn finish(self) -> Prompt {
        Prompt {
            seed: self.hasher.seed(),
            tokens: self.hasher.tokens().max(1),
            images: self.images,
            documents: self.documents,
            marks: self.hasher.finish(),
        }
    }
}

/// The text of a content: a string, or its text parts joined.
pub(crate) fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let texts = parts.iter().filter_map(|part| part["text"].as_str());
            texts.collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(value: Value) -> Prompt {
        let mut reader = PromptReader::new("m", PrefixHasher::in_steps(0));
        reader.value(&value);
        reader.finish()
    }

    #[test]
    fn a_text_part_is_the_text_itself() {
        let plain = read(json!("hello there"));
        let part =
            read(json!([{"type": "text", "text": "hello there", "cache_control": {"type": "ephemeral"}}]));
        assert_eq!((plain.seed, plain.tokens), (part.seed, part.tokens));
        assert_ne!(plain.seed, read(json!("hello here")).seed);
    }

    #[test]
    fn media_count_by_number_and_not_by_size() {
        let image = |data: String| json!([{"type": "image_url", "image_url": {"url": data}}]);
        let small = read(image("data:a".into()));
        let large = read(image(format!("data:{}", "b".repeat(100_000))));
        assert_eq!((small.images, small.tokens, large.tokens), (1, TOKENS_PER_IMAGE, TOKENS_PER_IMAGE));
        assert_ne!(small.seed, large.seed);
        let nested = json!([{"type": "tool_result", "content": [
            {"type": "document", "source": {"type": "base64", "data": "JVBERi0="}},
            {"type": "image", "source": {"type": "url", "url": "https://x.example/a.png"}},
        ]}]);
        let nested = read(nested);
        assert_eq!((nested.images, nested.documents), (1, 1));
    }
}
