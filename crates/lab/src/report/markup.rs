//! Elements of HTML and SVG. What is written is well-formed, and every text and attribute is escaped, because there is
//! no other way to write one.

use std::fmt::{self, Display, Formatter, Write};

/// Those of ours that HTML knows no end of.
const VOID: [&str; 2] = ["input", "meta"];

pub(super) struct Element {
    name: &'static str,
    attributes: Vec<(&'static str, String)>,
    children: Vec<Node>,
}

enum Node {
    Element(Element),
    Text(String),
}

pub(super) fn element(name: &'static str) -> Element {
    Element { name, attributes: Vec::new(), children: Vec::new() }
}

/// An element with nothing but text in it.
pub(super) fn text(name: &'static str, text: impl Display) -> Element {
    element(name).text(text)
}

impl Element {
    pub(super) fn set(mut self, name: &'static str, value: impl Display) -> Element {
        self.attributes.push((name, value.to_string()));
        self
    }

    pub(super) fn class(self, names: impl Display) -> Element {
        self.set("class", names)
    }

    pub(super) fn text(mut self, text: impl Display) -> Element {
        self.children.push(Node::Text(text.to_string()));
        self
    }

    pub(super) fn add(mut self, child: impl Into<Option<Element>>) -> Element {
        self.children.extend(child.into().map(Node::Element));
        self
    }

    pub(super) fn all(mut self, children: impl IntoIterator<Item = Element>) -> Element {
        self.children.extend(children.into_iter().map(Node::Element));
        self
    }
}

impl Display for Element {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        write!(out, "<{}", self.name)?;
        for (name, value) in &self.attributes {
            write!(out, " {name}=\"")?;
            escape(out, value, "&#34;")?;
            out.write_char('"')?;
        }
        if VOID.contains(&self.name) {
            return out.write_str("/>");
        }
        out.write_char('>')?;
        for child in &self.children {
            match child {
                Node::Element(element) => element.fmt(out)?,
                Node::Text(text) => escape(out, text, "\"")?,
            }
        }
        write!(out, "</{}>", self.name)
    }
}

fn escape(out: &mut Formatter<'_>, text: &str, quote: &str) -> fmt::Result {
    for character in text.chars() {
        match character {
            '&' => out.write_str("&amp;")?,
            '<' => out.write_str("&lt;")?,
            '>' => out.write_str("&gt;")?,
            '"' => out.write_str(quote)?,
            '\n' | '\t' => out.write_char(character)?,
            character if character.is_control() => out.write_char(char::REPLACEMENT_CHARACTER)?,
            character => out.write_char(character)?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_gets_out_of_a_text_or_an_attribute() {
        let evil = "</p><script>\"&\u{0}";
        let written = text("p", evil).set("title", evil).add(element("meta")).to_string();
        let start = "&lt;/p&gt;&lt;script&gt;";
        let (title, inside) = (format!("{start}&#34;&amp;\u{fffd}"), format!("{start}\"&amp;\u{fffd}"));
        assert_eq!(written, format!("<p title=\"{title}\">{inside}<meta/></p>"));
    }
}
