//! The nearest right spelling.

/// Below this, a suggestion confuses more than it helps.
const CLOSE: f64 = 0.8;

/// `; did you mean …?` where one candidate is close, else nothing.
pub(super) fn hint<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    match nearest(word, candidates) {
        Some(candidate) => format!("; did you mean `{candidate}`?"),
        None => String::new(),
    }
}

fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // No setting is longer; comparing takes the square of the length.
    if word.len() > 64 {
        return None;
    }
    let plain = |text: &str| text.to_lowercase().replace('-', "_");
    let word = plain(word);
    let scored = candidates.into_iter().map(|c| (strsim::jaro_winkler(&word, &plain(c)), c));
    scored.filter(|(score, _)| *score >= CLOSE).max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, c)| c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_is_suggested_and_the_far_is_not() {
        let keys = ["concurrency", "listen", "admin_listen", "api_key", "base_url"];
        assert_eq!(hint("concurency", keys), "; did you mean `concurrency`?");
        assert_eq!(hint("api-key", keys), "; did you mean `api_key`?");
        assert_eq!(hint("Listen", keys), "; did you mean `listen`?");
        assert_eq!(hint("zebra", keys), "");
        assert_eq!(hint("", keys), "");
        assert_eq!(hint(&"listen".repeat(1000), keys), "");
    }
}
