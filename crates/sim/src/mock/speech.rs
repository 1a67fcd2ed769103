//! `POST /v1/audio/speech`: bytes that follow from the input and play as nothing, sent in chunks.

use super::events::EventWriter;
use super::hash::{Hash, draw};
use super::reply::{Refusal, Reply, parse_object};
use super::routes::Asked;

const WORDS_PER_CHUNK: u64 = 64;

pub(crate) fn reply(asked: &Asked<'_>) -> Result<Reply, Refusal> {
    let request = parse_object(&asked.body)?;
    let input = request["input"].as_str().unwrap_or_default();
    if asked.tuning.strict && input.is_empty() {
        return Err(Refusal::bad("'input' must be a text that is not empty").param("input"));
    }
    let seed = Hash::new(5).text(input).finish();
    let mut out = EventWriter::default();
    for chunk in 0..asked.tuning.chunks as u64 {
        let words = (0..WORDS_PER_CHUNK).map(|at| draw(seed, chunk * WORDS_PER_CHUNK + at));
        let bytes: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
        out.raw(&bytes, true);
    }
    let content_type = match request["response_format"].as_str() {
        Some("wav") => "audio/wav",
        Some("opus") => "audio/opus",
        Some("aac") => "audio/aac",
        Some("flac") => "audio/flac",
        Some("pcm") => "audio/pcm",
        _ => "audio/mpeg",
    };
    Ok(Reply { content_type, pieces: out.finish(), streams: true, tokens: 0 })
}
