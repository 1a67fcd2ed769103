//! The reference in `docs/configuration.md`: made from the schema, which is made
//! from the doc comments in `file`, and held equal to them here.
//!
//! `UPDATE_DOCS=1 cargo test -p sluicegate reference` writes it anew.

use std::fmt::Write;
use std::path::Path;

use serde_json::Value;

use super::schema;

const BEGIN: &str = "<!-- reference: made from the doc comments in config/file.rs; don't edit -->\n";
const END: &str = "<!-- end of the reference -->\n";

fn reference() -> String {
    let mut text = String::new();
    table(schema::schema(), "", &mut text);
    text
}

/// One section for this table's keys, then those of the tables in it.
fn table(node: &Value, name: &str, text: &mut String) {
    let title = if name.is_empty() { "Top level" } else { name };
    let about = node["description"].as_str().unwrap_or_default();
    // Writing to a string can't fail.
    let _ =
        write!(text, "\n### {title}\n\n{about}\n\n| key | value | default | |\n| --- | --- | --- | --- |\n");
    let keys: Vec<_> = node["properties"].as_object().into_iter().flatten().collect();
    for (key, inner) in keys.iter().filter(|(_, inner)| nested(inner).is_none()) {
        let default = inner.get("default").map(|value| format!("`{value}`")).unwrap_or_default();
        let meaning = inner["description"].as_str().unwrap_or_default();
        let _ = writeln!(text, "| `{key}` | {} | {default} | {meaning} |", kind(inner));
    }
    for (key, inner) in keys {
        let path = if name.is_empty() {
            key.clone()
        } else {
            format!("{}.{key}", name.trim_matches(['`', '[', ']']))
        };
        match nested(inner) {
            Some(Nested::Table) => table(inner, &format!("`[{path}]`"), text),
            Some(Nested::Named(each)) => {
                let each = described(each, inner);
                table(&each, &format!("`[{path}.NAME]`"), text);
            }
            Some(Nested::List(each)) => {
                let each = described(each, inner);
                table(&each, &format!("`[[{path}]]`"), text);
            }
            None => {}
        }
    }
}

enum Nested<'a> {
    Table,
    Named(&'a Value),
    List(&'a Value),
}

fn nested(node: &Value) -> Option<Nested<'_>> {
    if node["additionalProperties"].is_object() {
        return Some(Nested::Named(&node["additionalProperties"]));
    }
    if node["items"]["type"] == "object" {
        return Some(Nested::List(&node["items"]));
    }
    (node["type"] == "object").then_some(Nested::Table)
}

/// The element of a map or list, with what its key says.
fn described(each: &Value, key: &Value) -> Value {
    let mut each = each.clone();
    each["description"] = key["description"].clone();
    each
}

fn kind(node: &Value) -> String {
    if let Some(choices) = node["enum"].as_array() {
        return choices.iter().map(|choice| format!("`{choice}`")).collect::<Vec<_>>().join(" or ");
    }
    let name = match node["title"].as_str().or(node["type"].as_str()) {
        Some("boolean") => "true or false",
        Some("string") => "text",
        Some("integer") => "number",
        Some("array") => "list of texts",
        Some(name) => name,
        None => "",
    };
    match (node["minimum"].as_u64(), node["maximum"].as_u64()) {
        (least, Some(most)) => format!("{name}, {} to {most}", least.unwrap_or(0)),
        _ => name.to_owned(),
    }
}

#[test]
fn the_page_has_the_reference() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(BEGIN).expect("the page marks where the reference begins");
    let (found, after) = rest.split_once(END).expect("the page marks where the reference ends");
    let made = format!("{}\n", reference());
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, format!("{before}{BEGIN}{made}{END}{after}")).unwrap();
        return;
    }
    assert_eq!(found, made, "run it with UPDATE_DOCS=1");
}
