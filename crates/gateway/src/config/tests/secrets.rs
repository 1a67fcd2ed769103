use super::*;

const SENTINEL: &str = "sk-sentinel";

fn dry(text: &str, what: &str) {
    assert!(!text.contains("sentinel"), "{what}: {text}");
}

#[test]
fn no_secret_is_in_what_check_or_a_debug_print_shows() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("key");
    std::fs::write(&path, "sk-sentinel-file\n").unwrap();
    let file = format!(
        "[providers.openai]\napi_key = \"sk-sentinel-plain\"\n[providers.groq]\n\
         [providers.anthropic]\napi_key = \"file:{}\"\n[admin]\ntoken = \"env:TOKEN\"\nviewer_token = \"sk-sentinel-v\"\n",
        path.display()
    );
    let variables = [("GROQ_API_KEY", SENTINEL), ("TOKEN", "sk-sentinel-token")];
    let env = Environment::with_files(variables);
    let flags = Flags::default();
    let (config, provenance) = layered(&file, Path::new("sluicegate.toml"), &flags, &env).unwrap();
    let exposed: Vec<_> = config.providers.iter().map(|p| p.api_key.as_ref().unwrap().expose()).collect();
    assert_eq!(exposed, ["sk-sentinel-plain", SENTINEL, "sk-sentinel-file"]);
    let text = check::effective(&config, &provenance);
    dry(&text, "check");
    dry(&format!("{config:?} {provenance:?} {env:?}"), "debug");
    dry(&config.warnings.join("\n"), "warnings");
    assert_eq!(text.matches("\"***\"").count(), 5, "{text}");
    assert_eq!(config.warnings.len(), 2, "each plain one is warned of: {:?}", config.warnings);
}

#[test]
fn no_secret_is_in_an_error() {
    for file in [
        "[providers.openai]\napi_key = \"sk-sentinel",
        "[providers.openai]\napi_key = sk-sentinel",
        "[providers.openai]\napi-key = \"sk-sentinel\"",
        "[providers.openai]\napi_key = \"sk-sentinel\\n\"",
        "[providers.openai]\napi_key = \"sk-sentinel\"\napi_key = \"sk-sentinel\"",
        "[providers.openai]\napi_key = { text = \"sk-sentinel\" }",
        "[providers.openai]\napi_key = [\"sk-sentinel\"]",
        "[providers]\nopenai = \"sk-sentinel\"",
        "[providers.openai]\nconcurrency = \"sk-sentinel\"",
        "[providers.openai]\nhttp = \"sk-sentinel\"",
        "[providers.openai]\ntimeouts = \"sk-sentinel\"",
        "models = \"sk-sentinel\"",
        "[admin]\ntoken = \"sk-sentinel\"\nviewer_token = \"sk-sentinel\"",
        "[store]\nurl = \"postgres://u:sk-sentinel@h\"",
    ] {
        dry(&error(file), file);
    }
    let flags = Flags::default();
    for variables in [
        ("OPENAI_API_KEY", "sk-sentinel\n"),
        ("SLUICEGATE_CONCURRENCY", SENTINEL),
        ("SLUICEGATE_X", SENTINEL),
    ] {
        dry(&resolve("", [variables], &flags).unwrap_err(), variables.0);
    }
}

#[test]
fn the_usual_variables_are_the_admin_tokens_where_none_is_typed() {
    let loaded = resolve("", [("SLUICEGATE_ADMIN_TOKEN", "t")], &Flags::default()).unwrap();
    assert_eq!(loaded.0.admin.token.as_ref().unwrap().expose(), "t");
    assert_eq!(shown(&loaded, "token"), ["token = \"***\" # SLUICEGATE_ADMIN_TOKEN"]);
}
