use std::time::Duration;

use super::super::{Cache, CacheWhen, Coalesce, Flags, Gate, Limit, Window, schema};
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
fn sharing_and_keeping_are_set_for_all_and_for_one() {
    let all = |config: &Config| config.providers.iter().map(|p| (p.coalesce, p.cache)).collect::<Vec<_>>();
    let usual = (
        Coalesce { enabled: true, finish_abandoned: false },
        Cache { when: CacheWhen::Always, ttl: secs(300), max_bytes: 256 << 20 },
    );
    let (plain, _) = resolve("", [], &Flags::default()).unwrap();
    assert_eq!((plain.coalesce, plain.cache), usual);
    assert_eq!(all(&plain), [usual; 2]);

    let file = "[coalesce]\nenabled = false\n[cache]\nwhen = \"deterministic\"\nttl = \"1h\"\nmax_bytes = \"1MiB\"\n\
        [providers.openai]\n[providers.groq]\ncoalesce = { enabled = true, finish_abandoned = true }\n\
        cache = { when = \"never\", ttl = 5 }\n";
    let given = (
        Coalesce { enabled: false, finish_abandoned: false },
        Cache { when: CacheWhen::Deterministic, ttl: secs(3600), max_bytes: 1 << 20 },
    );
    let own = (
        Coalesce { enabled: true, finish_abandoned: true },
        Cache { when: CacheWhen::Never, ttl: secs(5), max_bytes: 1 << 20 },
    );
    let loaded = resolve(file, [], &Flags::default()).unwrap();
    assert_eq!((loaded.0.coalesce, loaded.0.cache), given);
    assert_eq!(all(&loaded.0), [given, own]);
    let whens =
        ["cache.when = \"deterministic\" # sluicegate.toml:4", "cache.when = \"never\" # sluicegate.toml:10"];
    assert_eq!(shown(&loaded, "cache.when"), whens);
    assert_eq!(shown(&loaded, "max_bytes"), ["max_bytes = \"1MiB\" # sluicegate.toml:6"]);
}

#[test]
fn every_setting_of_sharing_and_keeping_has_its_variable() {
    let file = "[cache]\nmax_bytes = \"2MiB\"\n[providers.openai]\ncache = { when = \"always\", ttl = 5 }\n[providers.groq]\n";
    let variables = [
        ("SLUICEGATE_COALESCE__ENABLED", "off"),
        ("SLUICEGATE_COALESCE__FINISH_ABANDONED", "yes"),
        ("SLUICEGATE_CACHE__WHEN", "never"),
        ("SLUICEGATE_CACHE__TTL", "9s"),
        ("SLUICEGATE_CACHE__MAX_BYTES", "3MiB"),
        ("SLUICEGATE_PROVIDERS__GROQ__COALESCE__ENABLED", "on"),
        ("SLUICEGATE_PROVIDERS__GROQ__CACHE__TTL", "8s"),
        ("SLUICEGATE_PROVIDERS__GROQ__CACHE__WHEN", "deterministic"),
    ];
    let loaded = resolve(file, variables, &Flags::default()).unwrap();
    let config = &loaded.0;
    assert_eq!(config.coalesce, Coalesce { enabled: false, finish_abandoned: true });
    assert_eq!(config.cache, Cache { when: CacheWhen::Never, ttl: secs(9), max_bytes: 3 << 20 });
    let named = |name: &str| config.providers.iter().find(|p| p.name == name).unwrap();
    // A variable for all beats the file's line for one.
    assert_eq!(named("openai").coalesce, config.coalesce);
    assert_eq!(named("openai").cache, config.cache);
    assert_eq!(named("groq").coalesce, Coalesce { enabled: true, finish_abandoned: true });
    let own = Cache { when: CacheWhen::Deterministic, ttl: secs(8), max_bytes: 3 << 20 };
    assert_eq!(named("groq").cache, own);
    assert_eq!(shown(&loaded, "max_bytes"), ["max_bytes = \"3MiB\" # SLUICEGATE_CACHE__MAX_BYTES"]);
    let finish = "coalesce.finish_abandoned = true # SLUICEGATE_COALESCE__FINISH_ABANDONED";
    assert_eq!(shown(&loaded, "coalesce.finish_abandoned"), [finish; 2]);
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
}

#[test]
fn llm_batchers_variables_set_the_window_and_the_gate() {
    let (config, _) = resolve("", [("BATCH_ENABLED", "yes")], &Flags::default()).unwrap();
    let first = &config.providers[0];
    assert!(first.window.enabled);
    assert_eq!((first.concurrency, first.timeouts.total), (8, secs(60)), "that tool's own");

    let variables = [
        ("BATCH_ENABLED", "1"),
        ("BATCH_MAX_SIZE", "4"),
        ("BATCH_MAX_WAIT_MS", "7"),
        ("BATCH_MAX_CONCURRENCY", "3"),
        ("BATCH_TIMEOUT_S", "9"),
        ("MAX_INFLIGHT", "5"),
        ("MAX_QUEUE", "6"),
        ("ACQUIRE_TIMEOUT_S", "2"),
        ("RETRY_AFTER_S", "11"),
    ];
    let loaded =
        resolve("concurrency = 64\n[gate]\nmax_in_flight = 1", variables, &Flags::default()).unwrap();
    let first = &loaded.0.providers[0];
    let window = Window { enabled: true, max_size: 4, max_wait: Duration::from_millis(7) };
    assert_eq!(first.window, window);
    assert_eq!((first.concurrency, first.timeouts.total), (3, secs(9)));
    let gate = Gate { max_in_flight: 5, max_waiting: 6, wait: secs(2), retry_after: Some(secs(11)) };
    assert_eq!(loaded.0.gate, gate);
    assert_eq!(shown(&loaded, "max_in_flight"), ["max_in_flight = 5 # MAX_INFLIGHT"]);
    assert!(loaded.0.warnings.is_empty(), "{:?}", loaded.0.warnings);
}

/// What the window brings with it gives way to whatever anybody says, wherever.
#[test]
fn the_bounds_that_come_with_llm_batchers_window_rank_below_all_others() {
    let file = "[timeouts]\ntotal = \"70s\"\n[providers.openai]\nconcurrency = 64\n[providers.anthropic]";
    let (config, _) = resolve(file, [("BATCH_ENABLED", "1")], &Flags::default()).unwrap();
    let bounds: Vec<_> = config.providers.iter().map(|p| (p.concurrency, p.timeouts.total)).collect();
    assert_eq!(bounds, [(64, secs(70)), (8, secs(70))]);
    let ours = [("BATCH_ENABLED", "1"), ("SLUICEGATE_WINDOW__ENABLED", "false")];
    let (config, _) = resolve("", ours, &Flags::default()).unwrap();
    assert_eq!((config.providers[0].window.enabled, config.providers[0].concurrency), (false, 4096));
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
    let provider = &real["providers"]["openai"];
    for (key, node) in schema::schema()["properties"].as_object().unwrap() {
        // Global settings of providers show where they act.
        let global = real.get(key).unwrap_or(&serde_json::Value::Null);
        let acts = provider.get(key).unwrap_or(global);
        if let Some(documented) = node.get("default") {
            compare(documented, acts, key);
        }
        for (inner, node) in node["properties"].as_object().into_iter().flatten() {
            if let Some(documented) = node.get("default") {
                compare(documented, acts.get(inner).unwrap_or(&global[inner]), inner);
            }
        }
    }
    let each = &schema::schema()["properties"]["providers"]["additionalProperties"];
    for (key, node) in each["properties"].as_object().unwrap() {
        for (inner, node) in node["properties"].as_object().into_iter().flatten() {
            if let Some(documented) = node.get("default") {
                compare(documented, &provider[key][inner], inner);
            }
        }
    }
    assert!(compared >= 30, "only {compared} defaults are documented");
}
