//! OpenAI.

use super::{Auth, Kind, Shape};

pub(super) static OPENAI: Kind = Kind {
    name: "openai",
    base: "https://api.openai.com/v1",
    speaks: &["chat", "completions", "embeddings", "models", "responses"],
    shape: Shape::OpenAi,
    auth: Auth::Bearer,
    key_env: &["OPENAI_API_KEY"],
    families: &[
        "gpt-",
        "chatgpt-",
        "o1",
        "o3",
        "o4",
        "codex-",
        "computer-use-",
        "ft:",
        "text-embedding-",
        "text-moderation-",
        "omni-moderation",
        "dall-e",
        "sora-",
        "whisper",
        "tts-",
        "davinci",
        "babbage",
    ],
    keyless: false,
    ask_usage: true,
    old_limit: false,
    replays_thoughts: false,
    native: &[],
    defaults: &[],
};
