//! Who is asked: what the gate knows of each kind of provider, and whose credentials go there.
//!
//! A kind is a row of data. Code that needs to know something of a provider reads it from the row; nothing
//! compares names. A new OpenAI-shaped host is one row in `compatible`.
//!
//! Not here: an operator's own settings (address, key, limits), which the gateway holds per provider, and what
//! models there are and what they cost.

mod anthropic;
mod compatible;
mod credential;
mod openai;

use http::{HeaderMap, HeaderName, HeaderValue};

pub use crate::dialect::Shape;
pub use credential::{ClientCredential, Credential, take_credentials};

/// What is known of one kind of provider.
#[derive(Debug)]
pub struct Kind {
    /// Its name in configurations, paths and models.
    pub name: &'static str,
    /// The base URL as the provider's SDK takes it; empty where only the operator can know it.
    pub base: &'static str,
    /// The protocols it speaks below its `/v1`, by the names of their dialects. Opaque paths pass everywhere.
    pub speaks: &'static [&'static str],
    /// The protocol that is its own: that of its errors, its list of models and of opaque paths.
    pub shape: Shape,
    /// How it takes a credential.
    pub auth: Auth,
    /// The variables that its SDKs read a key from, first one first.
    pub key_env: &'static [&'static str],
    /// How the names of its own models begin.
    pub families: &'static [&'static str],
    /// It answers without a credential.
    pub keyless: bool,
    /// Its streams tell their usage only if asked by `stream_options.include_usage`. Not set where they tell it
    /// anyway, nor where the provider refuses that field or is not known to take it.
    pub ask_usage: bool,
    /// It knows the limit of an answer by its older name, `max_tokens`, or by both.
    pub old_limit: bool,
    /// Its models want their thoughts back, in plain text beside what they said.
    pub replays_thoughts: bool,
    /// Paths that it serves beside its `/v1` and not below it, each with all that is under it.
    pub native: &'static [&'static str],
    /// Headers that every request must bear; a caller's own ones stay.
    pub defaults: &'static [(&'static str, &'static str)],
}

/// How a provider takes a credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Auth {
    /// As `Authorization: Bearer`.
    Bearer,
    /// A key as `x-api-key`; what came as a bearer is a token of another sort and stays one.
    ApiKeyOrBearer,
}

/// All kinds. Where several have a key in the environment, this is their order.
pub static KINDS: &[&Kind] = &[
    &openai::OPENAI,
    &anthropic::ANTHROPIC,
    &compatible::GEMINI,
    &compatible::GROQ,
    &compatible::MISTRAL,
    &compatible::DEEPSEEK,
    &compatible::XAI,
    &compatible::OPENROUTER,
    &compatible::TOGETHER,
    &compatible::FIREWORKS,
    &compatible::CEREBRAS,
    &compatible::NVIDIA,
    &compatible::LLAMACPP,
    &compatible::OLLAMA,
    &compatible::VLLM,
    &compatible::SGLANG,
    &compatible::LMSTUDIO,
];

/// The kind of this name.
pub fn kind(name: &str) -> Option<&'static Kind> {
    KINDS.iter().copied().find(|kind| kind.name == name)
}

impl Kind {
    /// Whether `op` is one of the paths beside `/v1`.
    pub fn is_native(&self, op: &str) -> bool {
        let mut rests = self.native.iter().filter_map(|root| op.strip_prefix(root));
        rests.any(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// Puts a credential where this provider looks for it. Those of the caller must have been taken out before.
    pub fn seal(&self, headers: &mut HeaderMap, credential: &Credential) {
        credential.put(headers);
    }

    /// Adds what every request to this provider must bear, where the caller left it out.
    pub fn finish(&self, headers: &mut HeaderMap) {
        for (name, value) in self.defaults {
            if !headers.contains_key(*name) {
                headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::base::BaseUrl;

    const DIALECTS: [&str; 7] =
        ["chat", "completions", "embeddings", "models", "responses", "messages", "count_tokens"];

    #[test]
    fn every_row_is_well_formed() {
        let mut names = HashSet::new();
        let mut variables = HashSet::new();
        for row in KINDS {
            assert!(names.insert(row.name), "{} is there twice", row.name);
            assert!(std::ptr::eq(kind(row.name).unwrap(), *row));
            assert!(row.name.bytes().all(|byte| byte.is_ascii_lowercase()), "{}", row.name);
            assert!(row.speaks.iter().all(|dialect| DIALECTS.contains(dialect)), "{row:?}");
            assert!(row.key_env.iter().all(|variable| variables.insert(*variable)), "{row:?}");
            assert!(row.native.iter().all(|path| path.starts_with('/') && !path.ends_with('/')), "{row:?}");
            assert!(row.key_env.is_empty() <= row.keyless, "{} has neither a key nor needs none", row.name);
            row.finish(&mut HeaderMap::new());
            if !row.base.is_empty() {
                let (base, warning) = BaseUrl::parse(row.base, row).unwrap();
                assert_eq!(warning, None, "{}", row.name);
                assert_eq!(base.is_local(), row.keyless, "{}", row.name);
            }
        }
        assert!(kind("openia").is_none());
    }

    #[test]
    fn a_model_belongs_to_one_family() {
        let families: Vec<_> =
            KINDS.iter().flat_map(|row| row.families.iter().map(|family| (row.name, family))).collect();
        for (name, family) in &families {
            let owner = families.iter().find(|(_, prefix)| family.starts_with(**prefix)).unwrap();
            assert_eq!(owner.0, *name, "{family}");
        }
        for (model, owner) in [
            ("gpt-5-mini", "openai"),
            ("o3", "openai"),
            ("text-embedding-3-small", "openai"),
            ("ft:gpt-4o:org::id", "openai"),
            ("claude-haiku-4-5", "anthropic"),
            ("gemini-3-flash", "gemini"),
            ("ministral-8b-latest", "mistral"),
            ("deepseek-chat", "deepseek"),
            ("grok-4", "xai"),
        ] {
            let found = families.iter().find(|(_, prefix)| model.starts_with(**prefix)).unwrap();
            assert_eq!(found.0, owner, "{model}");
        }
        assert!(!families.iter().any(|(_, prefix)| "qwen3".starts_with(**prefix)));
    }

    #[test]
    fn native_paths_match_whole_segments() {
        let llamacpp = kind("llamacpp").unwrap();
        for (op, native) in [
            ("/completion", true),
            ("/completions", false),
            ("/embedding", true),
            ("/embeddings", false),
            ("/slots/0", true),
            ("/chat/completions", false),
            ("/models", false),
            ("/", false),
        ] {
            assert_eq!(llamacpp.is_native(op), native, "{op}");
        }
        assert!(kind("ollama").unwrap().is_native("/api/chat"));
        assert!(!kind("openai").unwrap().is_native("/api/chat"));
    }

    #[test]
    fn anthropic_gets_a_version_only_if_the_caller_named_none() {
        let anthropic = kind("anthropic").unwrap();
        let mut headers = HeaderMap::new();
        anthropic.finish(&mut headers);
        assert_eq!(headers["anthropic-version"], "2023-06-01");
        let mut headers = HeaderMap::new();
        headers.append("anthropic-version", HeaderValue::from_static("2026-10-21"));
        anthropic.finish(&mut headers);
        let versions: Vec<_> = headers.get_all("anthropic-version").iter().collect();
        assert_eq!(versions, ["2026-10-21"]);
        let mut headers = HeaderMap::new();
        kind("openai").unwrap().finish(&mut headers);
        assert!(headers.is_empty());
    }
}
