use super::*;

#[test]
fn every_fault_has_its_place_and_says_what_to_do() {
    for (file, expected) in [
        ("\nlistn = \"x\"", "sluicegate.toml:2:1: unknown key `listn`; did you mean `listen`?"),
        ("listen = \"nowhere\"", "sluicegate.toml:1:1: `nowhere` is no address to listen on"),
        ("\n\ndrain = \"soon\"", "sluicegate.toml:3:1: `drain`: `soon` is no duration: write `20ms`"),
        ("max_body = \"big\"", "sluicegate.toml:1:1: `max_body`: `big` is no size: write `64MiB`"),
        ("keep_alive = 0", "sluicegate.toml:1:1: `keep_alive` must be more than 0"),
        ("[timeouts]\nstall = \"soon\"", "sluicegate.toml:2:1: `timeouts.stall`: `soon` is no duration"),
        ("[timeouts]\ntotal = 0", "sluicegate.toml:2:1: `total` must be more than 0"),
        ("data_dir = \"\"", "sluicegate.toml:1:1: `data_dir` must name a directory"),
        ("hosts = [\n\"a\",\n\"b:80\"]", "sluicegate.toml:3:1: `b:80` is no host name"),
        ("[cors]\norigins = [\"*\"]", "sluicegate.toml:2:12: `*` is no origin"),
        ("[log]\nlevel = \"inof\"", "sluicegate.toml:2:1: `inof` is no log level; did you mean `info`?"),
        ("[log]\nformat = \"yaml\"", "sluicegate.toml:2:1: `log.format` must be `text` or `json`"),
        ("[budget]\nmax_spend = 1", "sluicegate.toml:1:2: [budget] is not in this version yet"),
        ("[cache]\nttl = 0", "sluicegate.toml:2:1: `ttl` must be more than 0"),
        ("[providers.openai.cache]\nttl = \"0s\"", "sluicegate.toml:2:1: `ttl` must be more than 0"),
        ("[cache]\nttl = \"soon\"", "sluicegate.toml:2:1: `cache.ttl`: `soon` is no duration"),
        ("[cache]\nmax_bytes = \"big\"", "sluicegate.toml:2:1: `cache.max_bytes`: `big` is no size"),
        (
            "[cache]\nmax_bytes = 0",
            "sluicegate.toml:2:1: `max_bytes` must be from 1MiB to 1TiB, not 0B; to keep no answers, set `cache.when` to `never`",
        ),
        (
            "[cache]\nmax_bytes = 1048575",
            "sluicegate.toml:2:1: `max_bytes` must be from 1MiB to 1TiB, not 1048575B;",
        ),
        (
            "[cache]\nmax_bytes = \"2TiB\"",
            "sluicegate.toml:2:1: `max_bytes` must be from 1MiB to 1TiB, not 2TiB;",
        ),
        (
            "[cache]\nwhen = \"allways\"",
            "sluicegate.toml:2:1: `cache.when` must be `always` or `deterministic` or `never`; did you mean `always`?",
        ),
        (
            "[providers.openai.cache]\nwhen = \"nevr\"",
            "sluicegate.toml:2:1: `providers.openai.cache.when` must be `always` or `deterministic` or `never`; did you mean `never`?",
        ),
        (
            "[providers.openai.cache]\nmax_bytes = \"1MiB\"",
            "sluicegate.toml:2:1: unknown key `providers.openai.cache.max_bytes`",
        ),
        (
            "[coalesce]\nenable = false",
            "sluicegate.toml:2:1: unknown key `coalesce.enable`; did you mean `enabled`?",
        ),
        (
            "[coalesce]\nfinish_abandoned = \"no\"",
            "sluicegate.toml:2:1: `coalesce.finish_abandoned` must be true or false, not text",
        ),
        (
            "[providers.opnai]",
            "sluicegate.toml:1:12: `opnai` is no built-in provider, so it needs a `kind`; did you mean `openai`?",
        ),
        (
            "[providers.x]\nkind = \"anthropc\"",
            "sluicegate.toml:2:1: `anthropc` is no kind of provider; did you mean `anthropic`?",
        ),
        ("[providers.openai]\nbase_url = \"::\"", "sluicegate.toml:2:1: "),
        (
            "[providers.openai]\nbase_url = \"HTTP://api.example.com/v1\"",
            "sluicegate.toml:2:1: http:// would carry keys",
        ),
        (
            "[providers.\"a\\u0007b\"]\nkind = \"openai\"",
            "sluicegate.toml:1:12: `a\\u{7}b` can't name a provider",
        ),
        (
            "[providers.openai]\nhttp = \"3\"",
            "sluicegate.toml:2:1: `providers.openai.http` must be `1.1` or `2`",
        ),
        ("[providers.openai]\napi_key = \"env:NONE\"", "sluicegate.toml:2:1: the variable NONE is not set"),
        ("[providers.openai]\napi_key = \"file:/none\"", "sluicegate.toml:2:1: can't read /none"),
        ("[providers.openai]\n[providers.openai]", "sluicegate.toml:2:"),
        ("[[models]]\nname = \"a\"", "sluicegate.toml:1:1: an alias needs a target"),
        (
            "[[models]]\ntargets = [{ provider = \"openai\", model = \"m\" }]",
            "sluicegate.toml:1:1: an alias needs a `name`: it is missing",
        ),
        (
            "[[models]]\nname = \"a\"\ntargets = [{ provider = \"opnai\", model = \"m\" }]",
            "sluicegate.toml:3:14: no provider is named `opnai`; did you mean `openai`?",
        ),
        (
            "[[models]]\nname = \"a\"\ntargets = [{ provider = \"openai\", model = \"m\\n\" }]",
            "sluicegate.toml:3:35: a target needs a `model`: it holds control characters",
        ),
        (
            "[[models]]\nname = \"a\"\ntargets = [{ provider = \"openai\", model = \"m\" }, { provider = \"openai\", model = \"n\" }]",
            "sluicegate.toml:3:50: `models.0.targets.1` is not in this version yet",
        ),
        (
            "admin_listen = \"127.0.0.1:8080\"",
            "sluicegate.toml:1:1: 127.0.0.1:8080 is what `listen` takes already",
        ),
    ] {
        let error = error(file);
        assert!(error.starts_with(expected), "{file}\n{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
}

#[test]
fn all_faults_are_named_at_once_in_the_files_order() {
    let file = "listn = 1\ndrain = \"soon\"\n[queue]\nmax = -1\n[providers.openai]\nconcurrency = 0\n[providers.what]\n";
    let error = error(file);
    let places: Vec<_> = error.lines().map(|line| line.split(": ").next().unwrap()).collect();
    let expected = ["1:1", "2:1", "4:1", "6:1", "7:12"].map(|place| format!("sluicegate.toml:{place}"));
    assert_eq!(places, expected, "{error}");
}

#[test]
fn a_fault_in_one_of_several_aliases_leaves_the_others_places_right() {
    let file = "[[models]]\nname = 5\n\n[[models]]\nname = \"b\"\n";
    let error = error(file);
    assert_eq!(error.lines().count(), 3, "{error}");
    assert!(error.contains("sluicegate.toml:2:1: `models.0.name` must be text in quotes"), "{error}");
    assert!(error.contains("sluicegate.toml:4:1: an alias needs a target"), "{error}");
}

#[test]
fn flags_and_variables_are_named_as_places() {
    let flags = |text: &str| Flags { providers: vec![text.into()], ..Flags::default() };
    let flag = |text: &str| resolve("", [], &flags(text)).unwrap_err();
    assert_eq!(flag("openai"), "--provider: write NAME=URL or NAME:KIND=URL");
    assert!(flag("opnai=http://127.0.0.1").starts_with("--provider: `opnai` is no built-in provider"));
    let twice = Flags { providers: vec!["openai=http://127.0.0.1/v1".into(); 2], ..Flags::default() };
    assert_eq!(resolve("", [], &twice).unwrap_err(), "--provider: `openai` is there twice");
    let spend = Flags { max_spend: Some("5".into()), ..Flags::default() };
    assert_eq!(resolve("", [], &spend).unwrap_err(), "--max-spend: [budget] is not in this version yet");
    let many = Flags { concurrency: Some("many".into()), ..Flags::default() };
    let error = resolve("", [], &many).unwrap_err();
    assert_eq!(error, "--concurrency: `concurrency` must be a whole number, not text");
    let error = resolve("", [("SLUICEGATE_BUDGET__MAX_SPEND", "5")], &Flags::default()).unwrap_err();
    assert_eq!(error, "SLUICEGATE_BUDGET__MAX_SPEND: [budget] is not in this version yet");
    let error = resolve("", [("SLUICEGATE_CACHE__TTL", "0")], &Flags::default()).unwrap_err();
    assert_eq!(error, "SLUICEGATE_CACHE__TTL: `ttl` must be more than 0");
    let error = resolve("", [("SLUICEGATE_CACHE__WHEN", "Never")], &Flags::default()).unwrap_err();
    assert!(error.ends_with("did you mean `never`?"), "{error}");
    let error = resolve("", [("SLUICEGATE_DRAIN", "soon")], &Flags::default()).unwrap_err();
    assert!(error.starts_with("SLUICEGATE_DRAIN: `drain`: `soon` is no duration"), "{error}");
}

#[test]
fn two_defaults_of_one_protocol_are_refused() {
    let file = "[providers.openai]\ndefault = true\n[providers.groq]\ndefault = true\n[providers.anthropic]\ndefault = true\n";
    assert_eq!(
        error(file),
        "sluicegate.toml:4:1: `groq` can't be the default: `openai` is that of its protocol already"
    );
}

#[test]
fn a_gate_that_others_reach_has_to_be_opened_knowingly() {
    for listen in ["0.0.0.0:8080", "::", "[::]:8080", ":8080", "10.0.0.1"] {
        let file = format!("listen = \"{listen}\"");
        let error = error(&file);
        assert!(error.starts_with("sluicegate.toml:1:1: ") && error.contains("--open"), "{error}");
        assert!(config(&format!("{file}\nopen = true")).open);
        let flags = Flags { open: true, ..Flags::default() };
        assert!(resolve(&file, [], &flags).is_ok());
    }
    for listen in ["::1", "127.0.0.2:0", "localhost"] {
        config(&format!("listen = \"{listen}\""));
    }
}

#[test]
fn an_admin_plane_that_others_reach_needs_a_token() {
    let file = "admin_listen = \":9090\"";
    let error = resolve(file, [], &Flags::default()).unwrap_err();
    assert!(error.contains("needs `admin.token`"), "{error}");
    assert!(resolve(file, [("SLUICEGATE_ADMIN_TOKEN", "t")], &Flags::default()).is_ok());
    let viewer = resolve(file, [("SLUICEGATE_VIEWER_TOKEN", "t")], &Flags::default()).unwrap_err();
    assert!(viewer.contains("needs `admin.token`"), "{viewer}");
}

#[test]
fn a_named_file_must_be_there_and_an_unnamed_need_not() {
    let dir = tempfile::tempdir().unwrap();
    let flags = Flags { config: Some(dir.path().join("none.toml")), ..Flags::default() };
    let error = super::super::load(&flags, &Environment::with_files([])).unwrap_err().to_string();
    assert!(error.starts_with("can't read the configuration file /"), "{error}");
    let path = dir.path().join("there.toml");
    std::fs::write(&path, "drain = 4").unwrap();
    let text = path.display().to_string();
    let env = Environment::with_files([("SLUICEGATE_CONFIG", text.as_str())]);
    let (config, provenance) = super::super::load(&Flags::default(), &env).unwrap();
    assert_eq!(config.drain.as_secs(), 4);
    assert_eq!(provenance.of("drain").to_string(), format!("{text}:1"));
}
