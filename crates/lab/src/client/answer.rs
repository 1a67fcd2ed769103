//! What an answer says, as far as an experiment asks: is it whole, is this content, and how many tokens were read.

use serde::Deserialize;
use wire::sse::{Ends, Event};

use super::sdk::Protocol;

/// A stream that never ends an event is no stream.
const LONGEST_EVENT: usize = 1 << 20;

/// Tokens of a prompt.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Read {
    pub input: u64,
    /// Of those, the ones that the provider had in its cache.
    pub cached: u64,
}

/// What an event of a stream is to its reader.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Said {
    /// With when a mock sent it, in microseconds since 1970, if it says so.
    Content(Option<u64>),
    /// The protocol's sign that nothing is missing.
    End,
    Error,
    Other,
}

/// Both protocols' answers and events: each has its own fields, and all of them may be missing.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Shape {
    #[serde(rename = "type")]
    kind: Option<String>,
    choices: Option<Vec<Choice>>,
    content: Option<serde_json::Value>,
    delta: Option<Delta>,
    message: Option<Message>,
    usage: Option<Usage>,
    error: Option<serde_json::Value>,
    mock_sent_us: Option<u64>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Choice {
    delta: Option<Delta>,
}

/// OpenAI's has `content`, Anthropic's `text` or `thinking`.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Delta {
    content: Option<String>,
    text: Option<String>,
    thinking: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Message {
    usage: Option<Usage>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Usage {
    prompt_tokens: Option<u64>,
    prompt_tokens_details: Option<PromptDetails>,
    input_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct PromptDetails {
    cached_tokens: u64,
}

impl Usage {
    fn read(&self) -> Option<Read> {
        if let Some(input) = self.prompt_tokens {
            let cached = self.prompt_tokens_details.as_ref().map_or(0, |details| details.cached_tokens);
            return Some(Read { input, cached });
        }
        // Anthropic's input is what no cache had anything to do with.
        let cached = self.cache_read_input_tokens.unwrap_or(0);
        let written = self.cache_creation_input_tokens.unwrap_or(0);
        self.input_tokens.map(|input| Read { input: input + cached + written, cached })
    }
}

/// A plain answer with a good status: whether it is one, and what it cost.
pub fn plain(protocol: Protocol, body: &[u8]) -> (bool, Option<Read>) {
    let Ok(shape) = serde_json::from_slice::<Shape>(body) else { return (false, None) };
    let has_answer = match protocol {
        Protocol::OpenAi => shape.choices.is_some_and(|choices| !choices.is_empty()),
        Protocol::Anthropic => shape.content.is_some(),
    };
    (has_answer && shape.error.is_none(), shape.usage.and_then(|usage| usage.read()))
}

/// Reads a stream event by event, however it is cut into pieces.
pub struct Stream {
    protocol: Protocol,
    ends: Ends,
    event: Vec<u8>,
    pub read: Option<Read>,
}

impl Stream {
    pub fn new(protocol: Protocol) -> Stream {
        Stream { protocol, ends: Ends::default(), event: Vec::new(), read: None }
    }

    /// What the events say that end in this piece.
    pub fn feed(&mut self, mut piece: &[u8], mut heard: impl FnMut(Said)) {
        while let Some(end) = self.ends.next(piece) {
            let (now, later) = piece.split_at(end.length);
            self.event.extend_from_slice(now);
            let event = std::mem::take(&mut self.event);
            heard(self.hear(&Event::read(&event)));
            piece = later;
        }
        self.event.extend_from_slice(piece);
        if self.event.len() > LONGEST_EVENT {
            self.event.clear();
            heard(Said::Error);
        }
    }

    fn hear(&mut self, event: &Event) -> Said {
        let data = event.data();
        if data.is_empty() {
            return Said::Other;
        }
        if data == b"[DONE]" {
            return Said::End;
        }
        let Ok(shape) = serde_json::from_slice::<Shape>(data) else { return Said::Error };
        let usage = shape.usage.or_else(|| shape.message.and_then(|message| message.usage));
        self.read = usage.and_then(|usage| usage.read()).or(self.read);
        if shape.error.is_some() || event.name() == Some(b"error") {
            return Said::Error;
        }
        let content = Said::Content(shape.mock_sent_us);
        let is = |kind: &str| shape.kind.as_deref() == Some(kind);
        let filled = |text: &Option<String>| text.as_ref().is_some_and(|text| !text.is_empty());
        match self.protocol {
            Protocol::OpenAi => {
                let delta =
                    |choice: &Choice| choice.delta.as_ref().is_some_and(|delta| filled(&delta.content));
                if shape.choices.unwrap_or_default().iter().any(delta) { content } else { Said::Other }
            }
            Protocol::Anthropic if is("message_stop") => Said::End,
            Protocol::Anthropic => match shape.delta {
                Some(delta) if filled(&delta.text) || filled(&delta.thinking) => content,
                _ => Said::Other,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(protocol: Protocol, text: &str, pieces: usize) -> (Vec<Said>, Option<Read>) {
        let mut stream = Stream::new(protocol);
        let mut said = Vec::new();
        for piece in text.as_bytes().chunks(pieces) {
            stream.feed(piece, |what| said.push(what));
        }
        (said, stream.read)
    }

    #[test]
    fn an_openai_stream_however_it_is_cut() {
        let text = "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n\
                    : keep-alive\n\n\
                    data: {\"mock_sent_us\":5,\"choices\":[{\"delta\":{\"content\":\"Hi\"}}]}\n\n\
                    data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"prompt_tokens_details\":{\"cached_tokens\":4}}}\n\n\
                    data: [DONE]\n\n";
        for pieces in [1, 7, 4096] {
            let (said, read) = heard(Protocol::OpenAi, text, pieces);
            assert_eq!(said, [Said::Other, Said::Other, Said::Content(Some(5)), Said::Other, Said::End]);
            assert_eq!(read, Some(Read { input: 9, cached: 4 }));
        }
    }

    #[test]
    fn an_anthropic_stream_and_its_error() {
        let text = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":3,\"cache_read_input_tokens\":5}}}\n\n\
                    event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"delta\":{\"type\":\"text_delta\",\"text\":\"Hi\"}}\n\n\
                    event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n\
                    event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\"}}\n\n";
        let (said, read) = heard(Protocol::Anthropic, text, 10);
        assert_eq!(said, [Said::Other, Said::Content(None), Said::End, Said::Error]);
        assert_eq!(read, Some(Read { input: 8, cached: 5 }));
    }

    #[test]
    fn what_is_no_event_is_an_error() {
        assert_eq!(heard(Protocol::OpenAi, "data: {\"choices\":[{\"del\n\n", 3).0, [Said::Error]);
        assert_eq!(heard(Protocol::OpenAi, "data: {\"error\":{\"message\":\"no\"}}\n\n", 3).0, [Said::Error]);
    }

    #[test]
    fn a_plain_answer_is_whole_if_it_says_something() {
        let body = br#"{"choices":[{"message":{"content":"Hi"}}],"usage":{"prompt_tokens":2}}"#;
        assert_eq!(plain(Protocol::OpenAi, body), (true, Some(Read { input: 2, cached: 0 })));
        assert!(plain(Protocol::Anthropic, br#"{"content":[]}"#).0);
        for broken in [&b"{\"choices\":["[..], b"{}", b"[]", b"", br#"{"error":{"message":"no"}}"#] {
            assert!(!plain(Protocol::OpenAi, broken).0);
        }
    }
}
