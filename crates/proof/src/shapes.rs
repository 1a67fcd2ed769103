//! What travels: prompts, plain answers and streams, known to client and upstream alike, so that the
//! client can tell a whole answer from a cut or altered one by its length.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use bytes::{BufMut, Bytes, BytesMut};

pub const CHAT_PATH: &str = "/v1/chat/completions";
/// Where the upstream speaks Anthropic's protocol instead of OpenAI's.
pub const MESSAGES_PATH: &str = "/v1/messages";
/// Asks the upstream, which counts chat calls, for its count.
pub const COUNT_PATH: &str = "/count";
/// Carries a [`StreamShape`] to the upstream.
pub const STREAM_HEADER: &str = "x-proof-stream";
/// Asks the upstream to wait so many milliseconds before it answers.
pub const DELAY_HEADER: &str = "x-proof-delay";
/// Tells the upstream which call this is; it lists those that reached it at [`SERIALS_PATH`].
pub const SERIAL_HEADER: &str = "x-proof-serial";
/// Asks the upstream for the serials that have arrived since it was last asked, one a line.
pub const SERIALS_PATH: &str = "/serials";

const ANSWER: &str = concat!(
    r#"{"id":"chatcmpl-proof0000000000000000000000","object":"chat.completion","created":1760000000,"#,
    r#""model":"gpt-4o-mini-2024-07-18","choices":[{"index":0,"message":{"role":"assistant","content":""#,
    r#"The water is held back by the gate and let through as fast as the channel below can carry it."#,
    r#"","refusal":null,"annotations":[]},"logprobs":null,"finish_reason":"stop"}],"usage":{"#,
    r#""prompt_tokens":84,"completion_tokens":21,"total_tokens":105,"prompt_tokens_details":{"#,
    r#""cached_tokens":0,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":0,"#,
    r#""audio_tokens":0}},"service_tier":"default","system_fingerprint":"fp_proof"}"#
);

pub fn answer() -> Bytes {
    Bytes::from_static(ANSWER.as_bytes())
}

/// The same with a number of its own in its id, and as long: whose answer it is can be told.
pub fn marked_answer(mark: u64) -> String {
    const UNMARKED: &str = "proof0000000000000000000000";
    ANSWER.replacen(UNMARKED, &format!("proof{mark:022}"), 1)
}

/// The same text in Anthropic's words, and about as long.
const MESSAGE: &str = concat!(
    r#"{"id":"msg_proof00000000000000000000000000","type":"message","role":"assistant","#,
    r#""model":"claude-haiku-4-5-20251001","content":[{"type":"text","text":""#,
    r#"The water is held back by the gate and let through as fast as the channel below can carry it."#,
    r#""}],"stop_reason":"end_turn","stop_sequence":null,"stop_details":null,"container":null,"usage":{"#,
    r#""input_tokens":84,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"#,
    r#""cache_creation":{"ephemeral_5m_input_tokens":0,"ephemeral_1h_input_tokens":0},"#,
    r#""output_tokens":21,"output_tokens_details":{"thinking_tokens":0},"service_tier":"standard"}}"#
);

pub fn message() -> Bytes {
    Bytes::from_static(MESSAGE.as_bytes())
}

/// By which a translated answer is known to be whole.
pub const SENTENCE: &str = "as fast as the channel below can carry it.";

/// Bodies that differ in one number, spliced in without building the rest anew. Nothing on the way
/// can answer two of them with one upstream call, unless their numbers are the same.
pub struct Prompts {
    before: String,
    after: String,
}

static SERIAL: AtomicU64 = AtomicU64::new(0);

impl Prompts {
    /// About 400 bytes.
    pub fn small() -> Self {
        Self::new(280, "")
    }

    /// About 74 KB: a long document or a long conversation.
    pub fn large() -> Self {
        Self::new(73_880, "")
    }

    /// A small one that asks for a stream.
    pub fn streaming() -> Self {
        Self::new(280, r#","stream":true"#)
    }

    fn new(filler: usize, fields: &str) -> Self {
        let filler: String =
            "all work and no play makes a dull prompt, ".chars().cycle().take(filler).collect();
        Self {
            before: r#"{"model":"gpt-4o-mini","messages":[{"role":"user","content":"Prompt "#.into(),
            after: format!(r#": {filler}"}}],"temperature":0.7,"max_tokens":64{fields}}}"#),
        }
    }

    /// A body that was never sent before.
    pub fn next(&self) -> Bytes {
        self.numbered(Self::fresh(1))
    }

    /// The first of so many numbers that no prompt of this run has had.
    pub fn fresh(count: usize) -> u64 {
        SERIAL.fetch_add(count as u64, Ordering::Relaxed)
    }

    /// The same body for the same number.
    pub fn numbered(&self, serial: u64) -> Bytes {
        let mut body = BytesMut::with_capacity(self.before.len() + self.after.len() + 12);
        body.put_slice(self.before.as_bytes());
        body.put_slice(format!("{serial:012}").as_bytes());
        body.put_slice(self.after.as_bytes());
        body.freeze()
    }
}

/// A stream of `chunks` equal events of `size` bytes, the first at once, the next every `every`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StreamShape {
    pub chunks: u32,
    pub every: Duration,
    pub size: usize,
}

impl StreamShape {
    pub fn header(&self) -> String {
        format!("{};{};{}", self.chunks, self.every.as_millis(), self.size)
    }

    pub fn parse(header: &str) -> Result<Self> {
        let mut numbers = header.split(';').map(str::parse::<u32>);
        let mut next = || -> Result<u32> { Ok(numbers.next().context("expected CHUNKS;MILLIS;SIZE")??) };
        let (chunks, millis, size) = (next()?, next()?, next()?);
        Ok(Self { chunks, every: Duration::from_millis(millis.into()), size: size as usize })
    }

    /// One event, padded to `size` (an event without text is 190 bytes long).
    pub fn chunk(&self) -> Bytes {
        const HEAD: &str = concat!(
            r#"data: {"id":"chatcmpl-proof0000000000000000000000","object":"chat.completion.chunk","#,
            r#""created":1760000000,"model":"gpt-4o-mini","choices":[{"index":0,"delta":{"content":""#
        );
        const TAIL: &str = "\"},\"finish_reason\":null}]}\n\n";
        let text = "t".repeat(self.size.saturating_sub(HEAD.len() + TAIL.len()));
        Bytes::from([HEAD, &text, TAIL].concat())
    }

    /// What ends the stream. Usage comes to those who asked for it, as with the real provider; a gate
    /// that asks for itself takes it out again, so the caller's bytes are the same either way.
    pub fn closing(with_usage: bool) -> Bytes {
        const FINISH: &str = concat!(
            r#"data: {"id":"chatcmpl-proof0000000000000000000000","object":"chat.completion.chunk","#,
            r#""created":1760000000,"model":"gpt-4o-mini","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#,
            "\n\n"
        );
        const USAGE: &str = concat!(
            r#"data: {"id":"chatcmpl-proof0000000000000000000000","object":"chat.completion.chunk","#,
            r#""created":1760000000,"model":"gpt-4o-mini","choices":[],"#,
            r#""usage":{"prompt_tokens":84,"completion_tokens":200,"total_tokens":284}}"#,
            "\n\n"
        );
        let usage = if with_usage { USAGE } else { "" };
        Bytes::from([FINISH, usage, "data: [DONE]\n\n"].concat())
    }

    /// What begins a stream in Anthropic's words.
    pub fn message_start() -> Bytes {
        Bytes::from_static(
            concat!(
                "event: message_start\n",
                r#"data: {"type":"message_start","message":{"id":"msg_proof","type":"message","role":"assistant","#,
                r#""model":"claude-haiku-4-5","content":[],"stop_reason":null,"stop_sequence":null,"#,
                r#""usage":{"input_tokens":84,"output_tokens":1}}}"#,
                "\n\nevent: content_block_start\n",
                r#"data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#,
                "\n\n"
            )
            .as_bytes(),
        )
    }

    /// One event of a stream in Anthropic's words, padded to `size`.
    pub fn message_chunk(&self) -> Bytes {
        const HEAD: &str = concat!(
            "event: content_block_delta\n",
            r#"data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":""#
        );
        const TAIL: &str = "\"}}\n\n";
        let text = "t".repeat(self.size.saturating_sub(HEAD.len() + TAIL.len()));
        Bytes::from([HEAD, &text, TAIL].concat())
    }

    /// What ends a stream in Anthropic's words.
    pub fn message_closing() -> Bytes {
        Bytes::from_static(
            concat!(
                "event: content_block_stop\n",
                r#"data: {"type":"content_block_stop","index":0}"#,
                "\n\nevent: message_delta\n",
                r#"data: {"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"#,
                r#""usage":{"output_tokens":200}}"#,
                "\n\nevent: message_stop\n",
                r#"data: {"type":"message_stop"}"#,
                "\n\n"
            )
            .as_bytes(),
        )
    }

    /// Bytes that a caller who asked for no usage receives.
    pub fn total(&self) -> u64 {
        u64::from(self.chunks) * self.chunk().len() as u64 + Self::closing(false).len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_are_distinct_json_of_the_size_they_claim() {
        for (prompts, size) in
            [(Prompts::small(), 400), (Prompts::large(), 74_000), (Prompts::streaming(), 410)]
        {
            let (one, two) = (prompts.next(), prompts.next());
            assert_ne!(one, two);
            assert_eq!(prompts.numbered(7), prompts.numbered(7));
            assert!(one.len().abs_diff(size) < size / 10, "{} bytes, not about {size}", one.len());
            serde_json::from_slice::<serde_json::Value>(&one).unwrap();
        }
    }

    #[test]
    fn the_answer_is_json_of_about_600_bytes() {
        let value: serde_json::Value = serde_json::from_slice(&answer()).unwrap();
        assert_eq!(value["usage"]["total_tokens"], 105);
        assert!(answer().len().abs_diff(600) < 60, "{}", answer().len());
    }

    #[test]
    fn both_protocols_say_the_same_in_about_as_many_bytes() {
        let value: serde_json::Value = serde_json::from_slice(&message()).unwrap();
        assert_eq!(value["usage"]["output_tokens"], 21);
        assert!(message().len().abs_diff(answer().len()) < 60, "{}", message().len());
        for text in [answer(), message()] {
            assert!(String::from_utf8_lossy(&text).contains(SENTENCE));
        }
        let shape = StreamShape { chunks: 3, every: Duration::ZERO, size: 220 };
        assert_eq!(shape.message_chunk().len(), 220);
        let events =
            [StreamShape::message_start(), shape.message_chunk(), StreamShape::message_closing()].concat();
        let lines = String::from_utf8(events).unwrap();
        for data in lines.lines().filter_map(|line| line.strip_prefix("data: ")) {
            serde_json::from_str::<serde_json::Value>(data).unwrap();
        }
    }

    #[test]
    fn a_stream_shape_survives_its_header() {
        let shape = StreamShape { chunks: 200, every: Duration::from_millis(40), size: 220 };
        assert_eq!(StreamShape::parse(&shape.header()).unwrap(), shape);
        assert!(StreamShape::parse("200;40").is_err());
        assert!(StreamShape::parse("a;b;c").is_err());
    }

    #[test]
    fn chunks_have_the_size_asked_for_and_hold_json() {
        let shape = StreamShape { chunks: 3, every: Duration::ZERO, size: 220 };
        let chunk = shape.chunk();
        assert_eq!(chunk.len(), 220);
        let json = chunk.strip_prefix(b"data: ").unwrap();
        serde_json::from_slice::<serde_json::Value>(json).unwrap();
        assert!(StreamShape::closing(true).len() > StreamShape::closing(false).len());
    }
}
