//! What models can do and refuse, as data: one row for all whose name begins so.
//!
//! A model that is in no row is taken to accept what its protocol has: its provider's own refusal is better than a
//! guess of ours.

/// The row of the longest prefix of a model's name. What stands before a slash (`vendor/model`) is no part of it.
pub(super) fn row<T>(rows: &'static [(&'static str, T)], model: &str) -> Option<&'static T> {
    let bare = model.rsplit_once('/').map_or(model, |(_, bare)| bare);
    let fitting = rows.iter().filter(|(prefix, _)| bare.starts_with(prefix));
    fitting.max_by_key(|(prefix, _)| prefix.len()).map(|(_, caps)| caps)
}
