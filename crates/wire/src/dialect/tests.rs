//! The table of protocols, and what each says when a call fails.

use serde_json::Value;

use super::*;
