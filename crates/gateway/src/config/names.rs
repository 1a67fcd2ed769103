//! The names a configuration may use: providers, models, hosts, origins, log
//! levels. What passes has no control characters and compares byte for byte.

use std::net::IpAddr;

use super::suggest;

const LEVELS: [&str; 6] = ["error", "warn", "info", "debug", "trace", "off"];

/// A provider's name stands in paths (`/to/NAME/`), in models (`NAME/model`), in
/// variables and metrics.
pub(super) fn provider(name: &str) -> Result<(), String> {
    let usual = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    if !name.is_empty() && name.len() <= 64 && name.bytes().all(usual) {
        return Ok(());
    }
    Err(format!(
        "`{}` can't name a provider: use at most 64 letters, digits, `-` and `_`",
        name.escape_debug()
    ))
}

pub(super) fn model(name: &str) -> Result<(), String> {
    match name {
        "" => Err("it is missing".to_owned()),
        _ if name.chars().any(char::is_control) => Err("it holds control characters".to_owned()),
        _ if name.len() > 256 => Err("it is longer than 256 bytes".to_owned()),
        _ if name.trim() != name => Err("it begins or ends with a space".to_owned()),
        _ => Ok(()),
    }
}

/// A host name or address without a port, in lower case, IPv6 without brackets.
pub(super) fn host(text: &str) -> Result<String, String> {
    let bare = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')).unwrap_or(text);
    let usual = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if bare.parse::<IpAddr>().is_ok() || (!text.is_empty() && text.bytes().all(usual)) {
        return Ok(bare.to_ascii_lowercase());
    }
    Err(format!("`{}` is no host name: write it without scheme, port and path", text.escape_debug()))
}

/// An origin as browsers send it.
pub(super) fn origin(text: &str) -> Result<String, String> {
    let wrong = || {
        format!(
            "`{}` is no origin: write `https://app.example.com`, each one by itself and without a path",
            text.escape_debug()
        )
    };
    let url = url::Url::parse(text).map_err(|_| wrong())?;
    let bare = matches!(url.path(), "" | "/") && url.query().is_none() && url.fragment().is_none();
    let (true, Some(host), "", None) = (bare, url.host_str(), url.username(), url.password()) else {
        return Err(wrong());
    };
    let origin = url.origin();
    // A browser extension's scheme has no origin of its own to this parser.
    Ok(if origin.is_tuple() { origin.ascii_serialization() } else { format!("{}://{host}", url.scheme()) })
}

/// A level, then `target=level` for parts of the program, with commas between.
pub(super) fn log_levels(text: &str) -> Result<(), String> {
    for (index, part) in text.split(',').enumerate() {
        let level = match part.rsplit_once('=') {
            Some((target, level)) if !target.trim().is_empty() => level.trim(),
            None if index == 0 => part.trim(),
            _ => return Err(format!("`{}` must say `target=level`", part.escape_debug())),
        };
        if !LEVELS.iter().any(|known| known.eq_ignore_ascii_case(level)) {
            let hint = suggest::hint(level, LEVELS);
            return Err(format!("`{}` is no log level{hint}", level.escape_debug()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn providers_have_plain_names() {
        assert!(provider("openai").is_ok() && provider("My-LLM_2").is_ok());
        for name in ["", "a b", "a/b", "a.b", "a\nb", "é", &"x".repeat(65)] {
            assert!(provider(name).unwrap_err().contains("can't name a provider"), "{name}");
        }
        assert!(!provider("a\u{1b}[31m").unwrap_err().contains('\u{1b}'));
    }

    #[test]
    fn models_may_be_named_freely_but_visibly() {
        assert!(model("org/Model:7b @1").is_ok());
        for name in ["", " a", "a\u{7}", &"x".repeat(257)] {
            assert!(model(name).is_err(), "{name}");
        }
    }

    #[test]
    fn hosts_are_names_without_ports() {
        assert_eq!(host("Gate.Example").as_deref(), Ok("gate.example"));
        assert_eq!(host("[::1]").as_deref(), Ok("::1"));
        assert_eq!(host("fd00::5").as_deref(), Ok("fd00::5"));
        for text in ["", "a:80", "http://a", "a/b", "*", "a b", "[a]"] {
            assert!(host(text).is_err(), "{text}");
        }
    }

    #[test]
    fn origins_are_as_browsers_send_them() {
        assert_eq!(origin("https://App.example.com/").as_deref(), Ok("https://app.example.com"));
        assert_eq!(origin("http://localhost:3000").as_deref(), Ok("http://localhost:3000"));
        assert_eq!(origin("https://a.example:443").as_deref(), Ok("https://a.example"));
        assert_eq!(origin("chrome-extension://abc").as_deref(), Ok("chrome-extension://abc"));
        for text in
            ["*", "null", "a.example", "https://a.example/path", "https://u:p@a.example", "https://a/?q"]
        {
            assert!(origin(text).is_err(), "{text}");
        }
    }

    #[test]
    fn log_levels_are_known_words() {
        for text in ["info", "INFO", "off", "info,sluicegate::upstream=debug, h2=warn", "hyper=debug"] {
            assert!(log_levels(text).is_ok(), "{text}");
        }
        assert_eq!(log_levels("inof").unwrap_err(), "`inof` is no log level; did you mean `info`?");
        for text in ["", "info,hyper=loud", "info,debug", "info,", "info,=debug"] {
            assert!(log_levels(text).is_err(), "{text}");
        }
    }
}
