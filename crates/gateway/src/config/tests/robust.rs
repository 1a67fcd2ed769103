use proptest::prelude::*;

use super::super::parse_text;
use super::*;

const SAMPLE: &str = "listen = \"[::1]:80\"\nmax_body = \"1MiB\"\nconcurrency = 3\n[timeouts]\nstall = \"learned\"\n\
    [coalesce]\nenabled = false\n[cache]\nwhen = \"never\"\nttl = \"1m\"\nmax_bytes = \"1GiB\"\n\
    [providers.openai]\nbase_url = \"http://[fd00::5]:8000/v1\"\napi_key = \"env:K\"\nhttp = 2\n\
    cache.when = \"deterministic\"\n[[models]]\n\
    name = \"a\"\ntargets = [{ provider = \"openai\", model = \"m\" }]\n[log]\nlevel = \"info\"\n";

/// Text that the loader gets deeper into than random characters do.
fn nearly_right() -> impl Strategy<Value = String> {
    (0..SAMPLE.len(), 0..SAMPLE.len(), ".{0,6}").prop_map(|(from, to, insert)| {
        let (from, to) = (from.min(to), from.max(to));
        format!("{}{insert}{}", &SAMPLE[..from], &SAMPLE[to..])
    })
}

proptest! {
    #[test]
    fn no_text_panics(text in prop_oneof![".*", nearly_right()]) {
        let _ = parse_text(&text);
    }

    #[test]
    fn no_variable_panics(name in "[A-Z_]{0,40}", value in ".*") {
        let _ = resolve(SAMPLE, [(format!("SLUICEGATE_{name}").as_str(), value.as_str())], &Flags::default());
    }

    #[test]
    fn no_flag_panics(text in ".*") {
        let some = || Some(text.clone());
        let flags = Flags {
            listen: some(), admin_listen: some(), data_dir: some(), timeout: some(), concurrency: some(),
            log_format: some(), log_level: some(), providers: vec![text.clone()], ..Flags::default()
        };
        let _ = resolve(SAMPLE, [], &flags);
    }
}

#[test]
fn deep_nesting_is_an_error() {
    assert!(error(&format!("a = {}", "[".repeat(100_000))).contains("not TOML"));
    assert!(error(&format!("{}a = 1", "a.".repeat(100_000))).contains("sluicegate.toml:1:"));
}

/// Save the masked secrets, what `check` prints can be used as the file.
#[test]
fn what_check_prints_is_a_configuration() {
    let file = SAMPLE.replace("api_key = \"env:K\"\n", "");
    let first = resolve(&file, [], &Flags::default()).unwrap();
    let printed = check::effective(&first.0, &first.1);
    let second = resolve(&printed, [], &Flags::default()).unwrap();
    let values = |text: &str| {
        let lines = text.lines().map(|line| line.split(" # ").next().unwrap().trim_end().to_owned());
        lines.collect::<Vec<_>>()
    };
    assert_eq!(values(&printed), values(&check::effective(&second.0, &second.1)));
}
