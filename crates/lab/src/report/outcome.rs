//! The three ways in which a call ends, with a colour and a shape for each.

/// In the order in which they are drawn and named.
pub(super) const KINDS: [Kind; 3] = [Kind::Ok, Kind::Refused, Kind::Failed];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Ok,
    Refused,
    Failed,
}

impl Kind {
    /// Of an outcome as the document names it: a status is a refusal.
    pub(super) fn of(outcome: &str) -> Kind {
        match outcome {
            "ok" => Kind::Ok,
            status if status.parse::<u16>().is_ok() => Kind::Refused,
            _ => Kind::Failed,
        }
    }

    pub(super) fn class(self) -> &'static str {
        match self {
            Kind::Ok => "ok",
            Kind::Refused => "refused",
            Kind::Failed => "failed",
        }
    }

    /// At the end of a call, for those who don't see the colour.
    pub(super) fn shape(self) -> Option<&'static str> {
        match self {
            Kind::Ok => None,
            Kind::Refused => Some("cross"),
            Kind::Failed => Some("diamond"),
        }
    }

    pub(super) fn words(self) -> &'static str {
        match self {
            Kind::Ok => "ok: a whole answer",
            Kind::Refused => "refused: an error status in the end",
            Kind::Failed => "failed: neither of them",
        }
    }
}
