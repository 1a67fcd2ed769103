//! The label sets, and what may become a label.

use std::sync::Arc;

use prometheus_client::encoding::EncodeLabelSet;

/// Longest model name that becomes a label, in bytes.
const MODEL_MAX: usize = 128;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(super) struct CallLabels {
    pub(super) protocol: &'static str,
    pub(super) provider: Arc<str>,
    pub(super) model: Arc<str>,
    pub(super) fate: &'static str,
    pub(super) status: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(super) struct RefusalLabels {
    pub(super) code: &'static str,
    pub(super) reason: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(super) struct AttemptLabels {
    pub(super) provider: Arc<str>,
    pub(super) outcome: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(super) struct TokenLabels {
    pub(super) provider: Arc<str>,
    pub(super) model: Arc<str>,
    pub(super) kind: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(super) struct WaveLabels {
    pub(super) provider: Arc<str>,
    pub(super) cause: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(super) struct ShedLabels {
    pub(super) provider: Arc<str>,
    pub(super) reason: &'static str,
}

/// Whether a name looks like a model's: short, printable, nothing that needs an escape.
pub(super) fn is_model_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= MODEL_MAX
        && name.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\' | b'{' | b'}'))
}

/// The label of a status: itself where it is a usual one, else its class. Providers send what they like.
pub(super) fn status(status: u16) -> &'static str {
    match status {
        200 => "200",
        201 => "201",
        202 => "202",
        204 => "204",
        206 => "206",
        304 => "304",
        400 => "400",
        401 => "401",
        402 => "402",
        403 => "403",
        404 => "404",
        405 => "405",
        408 => "408",
        409 => "409",
        413 => "413",
        415 => "415",
        421 => "421",
        422 => "422",
        424 => "424",
        429 => "429",
        499 => "499",
        500 => "500",
        501 => "501",
        502 => "502",
        503 => "503",
        504 => "504",
        529 => "529",
        _ => class(status),
    }
}

fn class(status: u16) -> &'static str {
    match status / 100 {
        1 => "1xx",
        2 => "2xx",
        3 => "3xx",
        4 => "4xx",
        5 => "5xx",
        _ => "other",
    }
}
