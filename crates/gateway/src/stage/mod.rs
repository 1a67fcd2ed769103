//! The steps of a call, one file each; `pipeline` has their order.

pub(crate) mod admit;
pub(crate) mod ask;
pub(crate) mod body;
pub(crate) mod down;
pub(crate) mod gate;
pub(crate) mod marks;
pub(crate) mod models;
pub(crate) mod patience;
pub(crate) mod share;
pub(crate) mod target;
pub(crate) mod up;
pub(crate) mod wishes;
