//! `GET /v1/models` lists what can be asked for, in the shape of who asks, and every name in it works.

use std::sync::Arc;

use http::{HeaderValue, Method, Request};
use http_body_util::Full;
use serde_json::Value;
use sim::mock::Mock;

use crate::world::*;

const ALIASES: &str = r#"
[providers.openai]
base_url = "http://127.0.0.1:1/v1"
[providers.anthropic]
base_url = "http://127.0.0.1:2"
[providers.local]
kind = "llamacpp"
base_url = "http://127.0.0.1:3"
[[models]]
name = "fast"
targets = [{ provider = "openai", model = "gpt-4o-mini" }]
"#;

fn get(path: &str, anthropic: bool) -> Request<Full<bytes::Bytes>> {
    let mut request = request(Method::GET, path, "");
    if anthropic {
        request.headers_mut().insert("anthropic-version", HeaderValue::from_static("2023-06-01"));
    }
    request
}

fn ids(list: &Value) -> Vec<String> {
    let entries = list["data"].as_array().expect("a list");
    entries.iter().map(|entry| entry["id"].as_str().expect("an id").to_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn of_several_providers_the_union_and_the_aliases() {
    let (world, _mock) = World::with(ALIASES, mock());
    let reply = world.ask(get("/v1/models", false)).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    let list = reply.json();
    assert_eq!(list["object"], "list");
    let ids = ids(&list);
    assert!(ids.iter().any(|id| id == "fast"), "{ids:?}");
    assert!(ids.iter().any(|id| id.starts_with("gpt-")), "the default's own names: {ids:?}");
    assert!(ids.iter().any(|id| id.starts_with("anthropic/claude-")), "{ids:?}");
    assert!(ids.iter().any(|id| id.starts_with("local/")), "{ids:?}");
    let entry = list["data"].as_array().unwrap().iter().find(|entry| entry["id"] == "fast").unwrap();
    assert_eq!(entry["object"], "model");
    // Each name can be asked for, in the protocol of its provider.
    for id in ids.iter().filter(|id| !id.starts_with("anthropic/") && !id.contains("embedding")).take(3) {
        let body = serde_json::json!({"model": id, "messages": [{"role": "user", "content": "hi"}]});
        let reply = world.post("/v1/chat/completions", body.to_string()).await;
        assert_eq!(reply.status, 200, "{id}: {}", reply.text());
    }
}

#[tokio::test(start_paused = true)]
async fn an_anthropic_client_gets_its_own_shape() {
    let (world, _mock) = World::with(ALIASES, mock());
    let list = world.ask(get("/v1/models", true)).await.json();
    assert_eq!(list["has_more"], false);
    let ids = ids(&list);
    assert_eq!(list["first_id"], ids[0].as_str());
    assert_eq!(list["last_id"], ids[ids.len() - 1].as_str());
    assert!(ids.iter().any(|id| id == "fast"), "{ids:?}");
    assert!(ids.iter().any(|id| id.starts_with("claude-")), "{ids:?}");
    assert!(ids.iter().any(|id| id.starts_with("openai/gpt-")), "{ids:?}");
    let types: Vec<_> = list["data"].as_array().unwrap().iter().map(|entry| &entry["type"]).collect();
    assert!(types.iter().all(|kind| *kind == "model"), "{types:?}");
}

#[tokio::test(start_paused = true)]
async fn the_list_is_kept_for_five_minutes() {
    let (world, mock) = World::with(ALIASES, mock());
    let first = world.ask(get("/v1/models", false)).await;
    let asked = mock.stats().arrived;
    assert_eq!(asked, 3);
    tokio::time::sleep(secs(290)).await;
    assert_eq!(world.ask(get("/v1/models", false)).await.body, first.body);
    assert_eq!(mock.stats().arrived, asked);
    tokio::time::sleep(secs(20)).await;
    world.ask(get("/v1/models", false)).await;
    assert_eq!(mock.stats().arrived, 2 * asked);
}

#[tokio::test(start_paused = true)]
async fn of_one_provider_its_own_answer() {
    let settings = "[providers.openai]\nbase_url = \"http://127.0.0.1:1/v1\"\n";
    let (world, mock) = World::with(settings, mock());
    let through = world.ask(get("/v1/models", false)).await;
    let seen = mock.requests(1);
    assert_eq!((through.status.as_u16(), seen[0].path.as_str()), (200, "/v1/models"));
    assert_eq!(through.header("x-sluicegate-provider"), "openai");
    assert!(ids(&through.json()).iter().all(|id| !id.contains('/')));
}

#[tokio::test(start_paused = true)]
async fn a_single_one_by_alias_prefix_and_name() {
    let (world, mock) = World::with(ALIASES, mock());
    let alias = world.ask(get("/v1/models/fast", false)).await;
    assert_eq!((alias.status.as_u16(), alias.json()["id"].as_str()), (200, Some("fast")));
    assert_eq!(mock.stats().arrived, 0);
    for (path, seen) in [
        ("/v1/models/gpt-4o-mini", "/v1/models/gpt-4o-mini"),
        ("/v1/models/openai/gpt-4o-mini", "/v1/models/gpt-4o-mini"),
    ] {
        let reply = world.ask(get(path, false)).await;
        assert_eq!(reply.status, 200, "{path}: {}", reply.text());
        assert_eq!(mock.requests(1)[0].path, seen);
    }
}

#[tokio::test(start_paused = true)]
async fn one_model_is_found_by_every_name_however_its_slash_is_written() {
    let (world, mock) = World::with(ALIASES, mock());
    for (path, id) in [
        ("/v1/models/fast", "fast"),
        ("/v1/models/openai/gpt-4o-mini", "gpt-4o-mini"),
        ("/v1/models/openai%2Fgpt-4o-mini", "gpt-4o-mini"),
        ("/v1/models/gpt-4o-mini", "gpt-4o-mini"),
    ] {
        let reply = world.ask(get(path, false)).await;
        assert_eq!(reply.status, 200, "{path}: {}", reply.text());
        assert_eq!(reply.json()["id"], id, "{path}");
    }
    assert!(mock.requests(10).iter().all(|request| request.path == "/v1/models/gpt-4o-mini"));
}

/// Several providers, each behind an address of its own.
struct Several(Vec<(&'static str, Arc<Mock>)>);

impl Providers for Several {
    fn connect(&self, to: &str) -> std::io::Result<tokio::io::DuplexStream> {
        let (_, mock) = self.0.iter().find(|(name, _)| *name == to).expect("a provider");
        Ok(mock.connect())
    }
}

/// The gate before an OpenAI, an Anthropic and a llama.cpp server that follow these scripts.
fn each(settings: &str, scripts: [&str; 3]) -> (World, [Arc<Mock>; 3]) {
    let mocks = scripts.map(|script| Arc::new(Mock::in_memory(mock_that(script))));
    let addresses = ["127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"];
    let several = Several(addresses.into_iter().zip(mocks.iter().cloned()).collect());
    (World::among(&format!("{settings}\n{THREE}"), Arc::new(several)), mocks)
}

const THREE: &str = r#"
[providers.openai]
base_url = "http://127.0.0.1:1/v1"
[providers.anthropic]
base_url = "http://127.0.0.1:2"
[providers.local]
kind = "llamacpp"
base_url = "http://127.0.0.1:3"
"#;

const ALIAS: &str = r#"
[[models]]
name = "fast"
targets = [{ provider = "openai", model = "gpt-4o-mini" }]
"#;

#[tokio::test(start_paused = true)]
async fn a_key_that_all_refuse_is_told_in_the_words_of_the_askers_own_provider() {
    for status in [401, 403, 429] {
        for settings in ["", ALIAS] {
            let script = format!("{status}");
            for anthropic in [false, true] {
                let (world, mocks) = each(settings, [&script; 3]);
                let (own, name) = if anthropic { (&mocks[1], "anthropic") } else { (&mocks[0], "openai") };
                let expected = own_words(own, anthropic).await;
                let reply = world.ask(get("/v1/models", anthropic)).await;
                assert_eq!(reply.status, status, "{}", reply.text());
                assert_eq!(reply.json()["type"], expected["type"]);
                assert_eq!(reply.json()["error"], expected["error"]);
                assert_eq!(reply.header("x-sluicegate-provider"), name);
                assert_eq!(reply.header("x-sluicegate-error"), "");
                assert_ne!(reply.header("x-should-retry"), "true");
            }
        }
    }
}

/// What the provider says itself.
async fn own_words(mock: &Arc<Mock>, anthropic: bool) -> Value {
    let only = if anthropic {
        "[providers.anthropic]\nbase_url = \"http://127.0.0.1:2\"\n"
    } else {
        "[providers.openai]\nbase_url = \"http://127.0.0.1:1/v1\"\n"
    };
    World::around(only, mock.clone()).ask(get("/v1/models", anthropic)).await.json()
}

#[tokio::test(start_paused = true)]
async fn no_client_error_becomes_a_server_error() {
    for status in ["400", "401", "403", "404", "422", "429"] {
        let (world, _mocks) = each("", [status; 3]);
        for anthropic in [false, true] {
            let reply = world.ask(get("/v1/models", anthropic)).await;
            assert_eq!(reply.status.as_str(), status, "{}", reply.text());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_not_kept() {
    for script in ["401", "429", "500", "503", "reset"] {
        for failing in [0, 2] {
            let mut scripts = ["ok"; 3];
            scripts[failing] = script;
            let (world, mocks) = each("", scripts);
            let part = world.ask(get("/v1/models", false)).await;
            assert_eq!(part.status, 200, "{script}: {}", part.text());
            mocks[failing].set_script("ok".parse().expect("a script"));
            let whole = ids(&world.ask(get("/v1/models", false)).await.json());
            assert!(whole.len() > ids(&part.json()).len(), "{script} at {failing}: {whole:?}");
            // What is whole is kept.
            let arrived = mocks[failing].stats().arrived;
            assert_eq!(ids(&world.ask(get("/v1/models", false)).await.json()), whole);
            assert_eq!(mocks[failing].stats().arrived, arrived);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_of_all_is_not_kept() {
    let (world, mocks) = each(ALIAS, ["401"; 3]);
    assert_eq!(world.ask(get("/v1/models", false)).await.status, 401);
    for mock in &mocks {
        mock.set_script("ok".parse().expect("a script"));
    }
    assert_eq!(world.ask(get("/v1/models", false)).await.status, 200);
}

#[tokio::test(start_paused = true)]
async fn a_provider_without_a_list_makes_it_no_less_whole() {
    let (world, mocks) = each("", ["ok", "ok", "404"]);
    let first = world.ask(get("/v1/models", false)).await;
    assert_eq!(first.status, 200);
    assert_eq!(world.ask(get("/v1/models", false)).await.body, first.body);
    assert_eq!(mocks.map(|mock| mock.stats().arrived)[2], 1);
}

#[tokio::test(start_paused = true)]
async fn without_a_key_no_alias_is_promised() {
    let far = format!(
        "{ALIAS}\n[providers.openai]\nbase_url = \"https://openai.test/v1\"\n\
         [providers.anthropic]\nbase_url = \"https://anthropic.test\"\n"
    );
    let (world, _mock) = World::with(&far, mock());
    let mut nobody = get("/v1/models", false);
    nobody.headers_mut().remove("authorization");
    let reply = world.ask(nobody).await;
    assert_eq!((reply.status.as_u16(), reply.header("x-sluicegate-error")), (401, "no_credentials"));
}
