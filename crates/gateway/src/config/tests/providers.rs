use super::*;

fn names(config: &Config) -> Vec<&str> {
    config.providers.iter().map(|provider| provider.name.as_str()).collect()
}

fn defaults(config: &Config) -> Vec<&str> {
    config
        .providers
        .iter()
        .filter(|provider| provider.default)
        .map(|provider| provider.name.as_str())
        .collect()
}

#[test]
fn with_none_named_there_are_the_two_public_ones_and_those_with_a_key() {
    assert_eq!(names(&config("")), ["openai", "anthropic"]);
    let keys = [("GROQ_API_KEY", "k"), ("OPENAI_API_KEY", "")];
    let (config, _) = resolve("", keys, &Flags::default()).unwrap();
    assert_eq!(names(&config), ["openai", "anthropic", "groq"]);
    let [openai, _, groq] = config.providers.as_slice() else { panic!("{config:?}") };
    assert!(openai.api_key.is_none() && openai.key_source.is_none(), "an empty variable is unset");
    assert_eq!(groq.key_source.as_deref(), Some("GROQ_API_KEY"));
}

#[test]
fn as_soon_as_one_is_named_only_the_named_exist() {
    let keys = [("GROQ_API_KEY", "k")];
    let (config, _) = resolve("[providers.openai]", keys, &Flags::default()).unwrap();
    assert_eq!(names(&config), ["openai"]);
    let variables = [("SLUICEGATE_PROVIDERS__GROQ__CONCURRENCY", "3")];
    let (config, _) = resolve("", variables, &Flags::default()).unwrap();
    assert_eq!(names(&config), ["groq"]);
    let flags = Flags { providers: vec!["anthropic=http://127.0.0.1:1".into()], ..Flags::default() };
    assert_eq!(names(&resolve("", [], &flags).unwrap().0), ["anthropic"]);
}

#[test]
fn a_named_one_gets_its_key_from_its_sdks_variable() {
    let file = "[providers.mine]\nkind = \"groq\"\n";
    let loaded = resolve(file, [("GROQ_API_KEY", "k-1")], &Flags::default()).unwrap();
    assert_eq!(loaded.0.providers[0].api_key.as_ref().unwrap().expose(), "k-1");
    assert_eq!(shown(&loaded, "api_key"), ["api_key = \"***\" # GROQ_API_KEY"]);
    let file = "[providers.mine]\nkind = \"groq\"\napi_key = \"env:OTHER\"\n";
    let loaded = resolve(file, [("GROQ_API_KEY", "k-1"), ("OTHER", "k-2")], &Flags::default()).unwrap();
    assert_eq!(loaded.0.providers[0].api_key.as_ref().unwrap().expose(), "k-2");
    assert_eq!(shown(&loaded, "api_key"), ["api_key = \"***\" # sluicegate.toml:3, from OTHER"]);
}

#[test]
fn providers_stand_in_the_order_of_flags_then_file() {
    let file = "[providers.groq]\n[providers.anthropic]\n[providers.openai]\n";
    assert_eq!(names(&config(file)), ["groq", "anthropic", "openai"]);
    let flags = Flags { providers: vec!["here:llamacpp=http://127.0.0.1:1".into()], ..Flags::default() };
    let (both, _) = resolve(file, [], &flags).unwrap();
    assert_eq!(names(&both), ["here", "groq", "anthropic", "openai"]);
    assert!(defaults(&both).is_empty());
    let loaded = resolve(file, [], &Flags::default()).unwrap();
    let first = "default = true # the first of its protocol";
    assert_eq!(shown(&loaded, "default"), [first, first, "default = false # default"]);
    let marked = config(&format!("{file}default = true\n"));
    assert_eq!(defaults(&marked), ["openai"]);
}

#[test]
fn a_flag_moves_a_provider_of_the_file() {
    let file = "[providers.openai]\nbase_url = \"http://127.0.0.1:1/v1\"\nconcurrency = 3\n";
    let flags = Flags { providers: vec!["openai=http://127.0.0.1:2/v1".into()], ..Flags::default() };
    let loaded = resolve(file, [], &flags).unwrap();
    assert_eq!(shown(&loaded, "base_url"), ["base_url = \"http://127.0.0.1:2/v1\" # flag --provider"]);
    assert_eq!(shown(&loaded, "concurrency"), ["concurrency = 3 # sluicegate.toml:3"]);
}

#[test]
fn a_suspicious_base_is_a_warning_with_its_place() {
    let file = "[providers.openai]\nbase_url = \"http://127.0.0.1:1/v1/chat/completions\"\n";
    let warnings = config(file).warnings;
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].starts_with("sluicegate.toml:2:1: "), "{warnings:?}");
}

#[test]
fn aliases_are_resolved() {
    let file = "[providers.openai]\n[[models]]\nname = \"fast\"\ntargets = [{ provider = \"openai\", model = \"m\" }]\n";
    let config = config(file);
    let [alias] = config.models.as_slice() else { panic!("{config:?}") };
    assert_eq!((alias.name.as_str(), alias.provider.as_str(), alias.model.as_str()), ("fast", "openai", "m"));
    let twice = format!(
        "{file}[[models]]\nname = \"fast\"\ntargets = [{{ provider = \"openai\", model = \"n\" }}]\n"
    );
    assert_eq!(error(&twice), "sluicegate.toml:6:1: the alias `fast` is there twice");
}
