use std::time::Duration;

use super::super::{Flags, Limit, schema};
use super::*;

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn each_source_wins_over_the_ones_below() {
    let file = "listen = \"127.0.0.1:1\"\n";
    let variable = ("SLUICEGATE_LISTEN", "127.0.0.1:2");
    let flag = Flags { listen: Some("127.0.0.1:3".into()), ..Flags::default() };
    let none = Flags::default();
    for (file, variables, flags, port, source) in [
        ("", vec![], &none, 8080, "default"),
        (file, vec![], &none, 1, "sluicegate.toml:1"),
        ("", vec![variable], &none, 2, "SLUICEGATE_LISTEN"),
        (file, vec![variable], &none, 2, "SLUICEGATE_LISTEN"),
        ("", vec![], &flag, 3, "flag --listen"),
        (file, vec![], &flag, 3, "flag --listen"),
        (file, vec![variable], &flag, 3, "flag --listen"),
    ] {
        let loaded = match variables.as_slice() {
            [variable] => resolve(file, [*variable], flags),
            _ => resolve(file, [], flags),
        };
        let loaded = loaded.unwrap();
        assert_eq!(loaded.0.listen.port(), port, "{source}");
        assert_eq!(shown(&loaded, "listen"), [format!("listen = \"127.0.0.1:{port}\" # {source}")]);
    }
}

#[test]
fn a_providers_own_value_wins_only_over_equal_sources() {
    let file = "concurrency = 5\n[providers.openai]\nconcurrency = 7\n[providers.groq]\n";
    let most = |variables: &[(&str, &str)], flags: &Flags| {
        let loaded = match variables {
            [one] => resolve(file, [*one], flags),
            [one, two] => resolve(file, [*one, *two], flags),
            _ => resolve(file, [], flags),
        };
        let (config, _) = loaded.unwrap();
        config.providers.iter().map(|p| (p.name.clone(), p.concurrency)).collect::<Vec<_>>()
    };
    let both = |openai, groq| vec![("openai".to_owned(), openai), ("groq".to_owned(), groq)];
    let none = Flags::default();
    let flag = Flags { concurrency: Some("9".into()), ..Flags::default() };
    let own = ("SLUICEGATE_PROVIDERS__OPENAI__CONCURRENCY", "6");
    let all = ("SLUICEGATE_CONCURRENCY", "8");
    let sorted = |mut all: Vec<(String, usize)>| {
        all.sort_by_key(|(name, _)| name != "openai");
        all
    };
    assert_eq!(sorted(most(&[], &none)), both(7, 5));
    assert_eq!(sorted(most(&[all], &none)), both(8, 8));
    assert_eq!(sorted(most(&[own], &none)), both(6, 5));
    assert_eq!(sorted(most(&[all, own], &none)), both(6, 8));
    assert_eq!(sorted(most(&[all, own], &flag)), both(9, 9));
}

#[test]
fn check_says_which_source_a_provider_inherited_from() {
    let file = "concurrency = 5\n[providers.openai]\n[providers.groq]\ntimeouts.total = \"9s\"\n";
    let flags = Flags { timeout: Some("30s".into()), ..Flags::default() };
    let loaded = resolve(file, [("SLUICEGATE_QUEUE__MAX", "3")], &flags).unwrap();
    assert_eq!(shown(&loaded, "concurrency"), ["concurrency = 5 # sluicegate.toml:1"; 2]);
    assert_eq!(shown(&loaded, "queue.max"), ["queue.max = 3 # SLUICEGATE_QUEUE__MAX"; 2]);
    assert_eq!(shown(&loaded, "timeouts.first_byte"), ["timeouts.first_byte = \"30s\" # flag --timeout"; 2]);
    let totals = ["timeouts.total = \"10m\" # default", "timeouts.total = \"9s\" # sluicegate.toml:4"];
    assert_eq!(shown(&loaded, "timeouts.total"), totals);
    assert_eq!(loaded.0.providers[1].timeouts.first_byte, Limit::Fixed(secs(30)));
}

#[test]
fn every_flag_reaches_its_setting() {
    let flags = Flags {
        listen: Some("8000".into()),
        admin_listen: Some("8001".into()),
        data_dir: Some("/tmp/x".into()),
        providers: vec!["openai=http://127.0.0.1:9/v1".into(), "here:llamacpp=http://127.0.0.1:8".into()],
        timeout: Some("7".into()),
        concurrency: Some("64".into()),
        log_format: Some("json".into()),
        log_level: Some("debug".into()),
        open: true,
        ..Flags::default()
    };
    let (config, _) = resolve("", [], &flags).unwrap();
    assert_eq!(config.listen.to_string(), "127.0.0.1:8000");
    assert_eq!(config.admin_listen.to_string(), "127.0.0.1:8001");
    assert_eq!(config.data_dir.display().to_string(), "/tmp/x");
    assert_eq!(config.log.level, "debug");
    assert_eq!(config.log.format.to_string(), "json");
    assert!(config.open);
    let named: Vec<_> = config.providers.iter().map(|p| (p.name.as_str(), p.kind.name)).collect();
    assert_eq!(named, [("openai", "openai"), ("here", "llamacpp")]);
    for provider in &config.providers {
        assert_eq!(provider.concurrency, 64);
        assert_eq!(provider.timeouts.first_byte, Limit::Fixed(secs(7)));
        assert_eq!(provider.timeouts.total, secs(600));
    }
}

#[test]
fn llm_batchers_variables_do_nothing_while_its_window_is_off() {
    let variables = [("BATCH_MAX_CONCURRENCY", "3"), ("BATCH_TIMEOUT_S", "9")];
    let (config, _) = resolve("", variables, &Flags::default()).unwrap();
    assert_eq!(config.providers[0].concurrency, 4096);
    assert_eq!(config.providers[0].timeouts.total, secs(600));
    assert_eq!(config.warnings.len(), 2, "{:?}", config.warnings);
    let enabled = resolve("", [("BATCH_ENABLED", "yes")], &Flags::default()).unwrap_err();
    assert_eq!(enabled, "BATCH_ENABLED: [window] is not in this version yet");
    let gate = resolve("", [("MAX_INFLIGHT", "5")], &Flags::default()).unwrap_err();
    assert_eq!(gate, "MAX_INFLIGHT: [gate] is not in this version yet");
}

/// The schema tells readers the defaults, `resolve` has them: here they meet.
#[test]
fn the_documented_defaults_are_the_real_ones() {
    let loaded = resolve("", [], &Flags::default()).unwrap();
    let text = check::effective(&loaded.0, &loaded.1);
    let real = super::super::text::parse(&text, "check").unwrap().tree;
    let mut compared = 0;
    let mut compare = |documented: &serde_json::Value, real: &serde_json::Value, key: &str| {
        let parsed =
            |value: &serde_json::Value| value.as_str().and_then(|s| super::super::duration::parse(s).ok());
        assert!(documented == real || parsed(documented) == parsed(real), "{key}: {documented} is {real}");
        compared += 1;
    };
    for (key, node) in schema::schema()["properties"].as_object().unwrap() {
        // Global settings of providers show where they act.
        let acts = match key.as_str() {
            "timeouts" | "queue" | "concurrency" => &real["providers"]["openai"][key],
            _ => real.get(key).unwrap_or(&serde_json::Value::Null),
        };
        if let Some(documented) = node.get("default") {
            compare(documented, acts, key);
        }
        for (inner, node) in node["properties"].as_object().into_iter().flatten() {
            if let Some(documented) = node.get("default") {
                compare(documented, &acts[inner], inner);
            }
        }
    }
    assert!(compared >= 20, "only {compared} defaults are documented");
}
