//! Hosts and servers that speak OpenAI's protocols, and some of them Anthropic's beside.
//!
//! What a row leaves out is not known to be served there; it still passes by `/to/NAME/…`.

use super::{Auth, Kind, Shape};

/// What most of them have in common.
const HOST: Kind = Kind {
    name: "",
    base: "",
    speaks: &["chat", "models"],
    shape: Shape::OpenAi,
    auth: Auth::Bearer,
    key_env: &[],
    families: &[],
    keyless: false,
    ask_usage: true,
    old_limit: true,
    replays_thoughts: false,
    native: &[],
    defaults: &[],
};

/// What servers on one's own machines have in common.
const SERVER: Kind = Kind {
    speaks: &["chat", "completions", "embeddings", "models", "responses", "messages"],
    keyless: true,
    ..HOST
};

/// Google's Gemini by its OpenAI-shaped door.
pub(super) static GEMINI: Kind = Kind {
    name: "gemini",
    base: "https://generativelanguage.googleapis.com/v1beta/openai",
    speaks: &["chat", "embeddings", "models"],
    key_env: &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
    families: &["gemini-"],
    ..HOST
};

pub(super) static GROQ: Kind = Kind {
    name: "groq",
    base: "https://api.groq.com/openai/v1",
    speaks: &["chat", "models", "responses"],
    key_env: &["GROQ_API_KEY"],
    ..HOST
};

/// It answers 422 to fields that it does not know, `stream_options` among them; its streams end with their
/// usage without being asked.
pub(super) static MISTRAL: Kind = Kind {
    name: "mistral",
    base: "https://api.mistral.ai/v1",
    speaks: &["chat", "embeddings", "models"],
    key_env: &["MISTRAL_API_KEY"],
    families: &[
        "mistral-",
        "codestral-",
        "ministral-",
        "pixtral-",
        "magistral-",
        "devstral-",
        "voxtral-",
        "open-mistral-",
        "open-mixtral-",
    ],
    ask_usage: false,
    ..HOST
};

/// Its Anthropic-shaped door has an address of its own: a provider of the kind `anthropic` there reaches it.
pub(super) static DEEPSEEK: Kind = Kind {
    name: "deepseek",
    base: "https://api.deepseek.com",
    key_env: &["DEEPSEEK_API_KEY"],
    families: &["deepseek-"],
    replays_thoughts: true,
    ..HOST
};

/// Chat Completions and, deprecated, Messages are its older doors; Responses is the one it recommends.
pub(super) static XAI: Kind = Kind {
    name: "xai",
    base: "https://api.x.ai/v1",
    speaks: &["chat", "models", "responses"],
    key_env: &["XAI_API_KEY"],
    families: &["grok-"],
    ..HOST
};

/// All its streams tell their usage, and what they cost.
pub(super) static OPENROUTER: Kind = Kind {
    name: "openrouter",
    base: "https://openrouter.ai/api/v1",
    speaks: &["chat", "completions", "embeddings", "models", "responses", "messages"],
    key_env: &["OPENROUTER_API_KEY"],
    ask_usage: false,
    ..HOST
};

/// Streams end with their usage.
pub(super) static TOGETHER: Kind = Kind {
    name: "together",
    base: "https://api.together.ai/v1",
    speaks: &["chat", "completions", "embeddings", "models", "responses"],
    key_env: &["TOGETHER_API_KEY"],
    ask_usage: false,
    ..HOST
};

/// Streams end with their usage.
pub(super) static FIREWORKS: Kind = Kind {
    name: "fireworks",
    base: "https://api.fireworks.ai/inference/v1",
    speaks: &["chat", "completions", "embeddings", "models", "responses", "messages"],
    key_env: &["FIREWORKS_API_KEY"],
    ask_usage: false,
    ..HOST
};

/// It answers 400 to several of OpenAI's fields; its streams end with their usage.
pub(super) static CEREBRAS: Kind = Kind {
    name: "cerebras",
    base: "https://api.cerebras.ai/v1",
    speaks: &["chat", "completions", "models"],
    key_env: &["CEREBRAS_API_KEY"],
    ask_usage: false,
    ..HOST
};

pub(super) static NVIDIA: Kind = Kind {
    name: "nvidia",
    base: "https://integrate.api.nvidia.com/v1",
    speaks: &["chat", "completions", "embeddings", "models"],
    key_env: &["NVIDIA_API_KEY"],
    ..HOST
};

/// No base of its own: the port it listens on is the gate's.
pub(super) static LLAMACPP: Kind = Kind {
    name: "llamacpp",
    speaks: &["chat", "completions", "embeddings", "models", "responses", "messages", "count_tokens"],
    native: &[
        "/completion",
        "/embedding",
        "/infill",
        "/tokenize",
        "/detokenize",
        "/apply-template",
        "/props",
        "/slots",
        "/lora-adapters",
        "/health",
        "/metrics",
    ],
    ..SERVER
};

/// The key is for its cloud, `https://ollama.com`, which takes it as a bearer only; a server of one's own
/// ignores it.
pub(super) static OLLAMA: Kind = Kind {
    name: "ollama",
    base: "http://localhost:11434/v1",
    key_env: &["OLLAMA_API_KEY"],
    native: &["/api"],
    ..SERVER
};

pub(super) static VLLM: Kind = Kind {
    name: "vllm",
    base: "http://localhost:8000/v1",
    speaks: &["chat", "completions", "embeddings", "models", "responses", "messages", "count_tokens"],
    key_env: &["VLLM_API_KEY"],
    native: &[
        "/tokenize",
        "/detokenize",
        "/pooling",
        "/classify",
        "/score",
        "/health",
        "/metrics",
        "/version",
    ],
    ..SERVER
};

pub(super) static SGLANG: Kind = Kind {
    name: "sglang",
    base: "http://localhost:30000/v1",
    speaks: &["chat", "completions", "embeddings", "models", "messages", "count_tokens"],
    native: &["/generate", "/health", "/health_generate", "/metrics"],
    ..SERVER
};

pub(super) static LMSTUDIO: Kind =
    Kind { name: "lmstudio", base: "http://localhost:1234/v1", native: &["/api"], ..SERVER };
