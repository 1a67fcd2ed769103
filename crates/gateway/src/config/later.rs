//! Settings of the documented configuration that this version doesn't have.
//!
//! They are refused, so that nothing is accepted and ignored. Who builds one
//! deletes its line here and adds its field in `file`.

/// Dotted paths; `*` stands for any name or index. A table covers its keys.
const NOT_YET: &[&str] = &[
    "breaker",
    "budget",
    "cluster",
    "concurrency.max",
    "concurrency.min",
    "hedge",
    "log.capture",
    "log.max_bytes",
    "log.redact",
    "log.retention",
    "models.*.balance",
    "models.*.fallbacks",
    // A second target.
    "models.*.targets.1",
    "models.*.targets.*.breaker",
    "models.*.targets.*.cache",
    "models.*.targets.*.coalesce",
    "models.*.targets.*.hedge",
    "models.*.targets.*.queue",
    "models.*.targets.*.retry",
    "models.*.targets.*.timeouts",
    "models.*.targets.*.weight",
    "otel",
    "prices",
    "providers.*.breaker",
    "providers.*.concurrency.max",
    "providers.*.concurrency.min",
    "providers.*.hedge",
    "providers.*.retry",
    "retry",
    "store",
];

/// What is refused of this path: the setting's name as the file would show it.
pub(super) fn refused(path: &str) -> Option<String> {
    let found = NOT_YET.iter().find(|setting| covers(setting, path))?;
    let depth = found.split('.').count();
    let name = path.split('.').take(depth).collect::<Vec<_>>().join(".");
    Some(if found.contains('.') { format!("`{name}`") } else { format!("[{name}]") })
}

/// Names that are not there yet, in the table at `path`.
pub(super) fn names_in(path: &str) -> impl Iterator<Item = &str> {
    let depth = if path.is_empty() { 0 } else { path.split('.').count() };
    NOT_YET.iter().filter_map(move |setting| {
        let mut segments = setting.split('.');
        let inside = path.split('.').take(depth).all(|p| segments.next().is_some_and(|s| s == "*" || s == p));
        segments.next().filter(|_| inside)
    })
}

fn covers(setting: &str, path: &str) -> bool {
    let mut path = path.split('.');
    setting.split('.').all(|wanted| path.next().is_some_and(|segment| wanted == "*" || wanted == segment))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_cover_their_keys() {
        assert_eq!(refused("budget.max_spend").as_deref(), Some("[budget]"));
        assert_eq!(refused("budget").as_deref(), Some("[budget]"));
        assert_eq!(refused("log.redact").as_deref(), Some("`log.redact`"));
        assert_eq!(refused("providers.x.breaker.window").as_deref(), Some("`providers.x.breaker`"));
        assert_eq!(refused("models.3.targets.1").as_deref(), Some("`models.3.targets.1`"));
        assert_eq!(refused("models.0.targets.0.cache.ttl").as_deref(), Some("`models.0.targets.0.cache`"));
        for path in ["log", "log.level", "concurrency", "models.1.targets.0", "budgets", "cache", "coalesce"]
        {
            assert_eq!(refused(path), None, "{path}");
        }
    }

    #[test]
    fn names_are_listed_by_table() {
        assert!(names_in("").any(|name| name == "budget"));
        assert!(names_in("log").any(|name| name == "capture"));
        assert!(names_in("providers.x").any(|name| name == "hedge"));
        assert!(names_in("timeouts").next().is_none());
    }
}
