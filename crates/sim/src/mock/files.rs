//! Files: takes a multipart upload, tells exactly how many bytes came, gives them back.
//!
//! Bounded: the oldest files go when there are too many or they are too large together. `file-mock` is
//! always there and holds every byte value.

use std::collections::VecDeque;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use parking_lot::Mutex;
use serde_json::json;

use super::hash::Hash;
use super::reply::{Dialect, Refusal, Reply};
use super::routes::Asked;

const MOST_FILES: usize = 64;
const MOST_BYTES: usize = 64 << 20;
const BUILT_IN: &str = "file-mock";
/// Answers are the same each time, so they carry no clock.
pub(crate) const CREATED: u64 = 1_790_000_000;
pub(crate) const CREATED_TEXT: &str = "2026-09-21T14:13:20Z";

#[derive(Default)]
pub(crate) struct FileStore {
    files: Mutex<VecDeque<(String, Bytes)>>,
}

impl FileStore {
    /// A file beyond all bounds is told about, but not kept.
    fn put(&self, id: String, bytes: Bytes) {
        let mut files = self.files.lock();
        files.retain(|(known, _)| *known != id);
        files.push_back((id, bytes));
        while files.len() > MOST_FILES
            || files.iter().map(|(_, bytes)| bytes.len()).sum::<usize>() > MOST_BYTES
        {
            files.pop_front();
        }
    }

    fn get(&self, id: &str) -> Option<Bytes> {
        if id == BUILT_IN {
            return Some((0..=255u8).cycle().take(4096).collect());
        }
        self.files.lock().iter().find(|(known, _)| known == id).map(|(_, bytes)| bytes.clone())
    }

    pub(crate) fn clear(&self) {
        self.files.lock().clear();
    }
}

pub(crate) fn upload(asked: &Asked<'_>) -> Result<Reply, Refusal> {
    let content_type = asked.header(CONTENT_TYPE.as_str()).unwrap_or_default();
    let boundary =
        boundary_of(content_type).ok_or_else(|| Refusal::bad("Expected a multipart/form-data upload."))?;
    let parts =
        parts_of(&asked.body, boundary).ok_or_else(|| Refusal::bad("The multipart body is broken."))?;
    let file = parts
        .iter()
        .find(|part| part.name == "file")
        .ok_or_else(|| Refusal::bad("'file' is a required property").param("file"))?;
    let purpose = parts.iter().find(|part| part.name == "purpose");
    if asked.tuning.strict && purpose.is_none() && asked.dialect == Dialect::OpenAi {
        return Err(Refusal::bad("'purpose' is a required property").param("purpose"));
    }
    let checksum = format!("{:016x}", Hash::new(0).bytes(&file.bytes).finish());
    let id = format!("file-{checksum}");
    let size = file.bytes.len();
    let value = match asked.dialect {
        Dialect::Anthropic => json!({
            "id": id, "type": "file", "filename": file.filename, "mime_type": file.content_type,
            "size_bytes": size, "created_at": CREATED_TEXT, "downloadable": true, "checksum": checksum,
        }),
        _ => json!({
            "id": id, "object": "file", "bytes": size, "created_at": CREATED, "filename": file.filename,
            "purpose": purpose.map(|part| String::from_utf8_lossy(&part.bytes)), "status": "processed",
            "checksum": checksum,
        }),
    };
    // A copy, so that a small file does not keep the whole upload alive.
    asked.shared.files.put(id, Bytes::copy_from_slice(&file.bytes));
    Ok(Reply::json(&value, 0))
}

pub(crate) fn content(asked: &Asked<'_>, id: &str) -> Result<Reply, Refusal> {
    let missing = || Refusal::not_found(format!("No such File object: {id}")).param("id");
    let bytes = asked.shared.files.get(id).ok_or_else(missing)?;
    Ok(Reply::binary("application/octet-stream", bytes))
}

struct Part {
    name: String,
    filename: Option<String>,
    content_type: String,
    bytes: Bytes,
}

fn boundary_of(content_type: &str) -> Option<&str> {
    let rest = content_type.strip_prefix("multipart/form-data")?;
    let value = rest.split(';').find_map(|parameter| parameter.trim().strip_prefix("boundary="))?;
    let value = value.trim_matches('"');
    (!value.is_empty()).then_some(value)
}

/// The parts of a multipart body; `None` if it does not end as it should.
fn parts_of(body: &Bytes, boundary: &str) -> Option<Vec<Part>> {
    let opening = format!("--{boundary}");
    let delimiter = format!("\r\n--{boundary}");
    let mut at = find(body, opening.as_bytes())? + opening.len();
    let mut parts = Vec::new();
    while !body[at..].starts_with(b"--") {
        at += find(&body[at..], b"\r\n")? + 2;
        // A part without headers begins with the empty line itself.
        let head_end = if body[at..].starts_with(b"\r\n") { 0 } else { find(&body[at..], b"\r\n\r\n")? + 2 };
        let head = String::from_utf8_lossy(&body[at..at + head_end]).into_owned();
        at += head_end + 2;
        let length = find(&body[at..], delimiter.as_bytes())?;
        parts.push(part(&head, body.slice(at..at + length)));
        at += length + delimiter.len();
    }
    Some(parts)
}

fn part(head: &str, bytes: Bytes) -> Part {
    let header = |wanted: &str| {
        head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.trim().eq_ignore_ascii_case(wanted).then(|| value.trim())
        })
    };
    let disposition = header("content-disposition").unwrap_or_default();
    let parameter = |wanted: &str| {
        disposition.split(';').find_map(|piece| {
            let (name, value) = piece.split_once('=')?;
            (name.trim() == wanted).then(|| value.trim().trim_matches('"').to_owned())
        })
    };
    Part {
        name: parameter("name").unwrap_or_default(),
        filename: parameter("filename"),
        content_type: header("content-type").unwrap_or("application/octet-stream").to_owned(),
        bytes,
    }
}

fn find(hay: &[u8], needle: &[u8]) -> Option<usize> {
    let first = *needle.first()?;
    let mut from = 0;
    while let Some(step) = hay.get(from..)?.iter().position(|byte| *byte == first) {
        from += step;
        if hay[from..].starts_with(needle) {
            return Some(from);
        }
        from += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(file: &[u8]) -> Bytes {
        let mut body = b"--b\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n--b\r\n\
            content-disposition: form-data; name=\"file\"; filename=\"a.jsonl\"\r\n\
            Content-Type: text/x\r\n\r\n"
            .to_vec();
        body.extend_from_slice(file);
        body.extend_from_slice(b"\r\n--b--\r\n");
        body.into()
    }

    #[test]
    fn files_come_out_as_they_went_in() {
        for file in [&b""[..], b"x", b"\r\n--", b"\r\n\r\n--c\r\n\xff\0", &[b'-'; 5000]] {
            let parts = parts_of(&form(file), "b").unwrap();
            assert_eq!(parts.len(), 2);
            assert_eq!((parts[0].name.as_str(), &parts[0].bytes[..]), ("purpose", &b"batch"[..]));
            assert_eq!((parts[1].name.as_str(), &parts[1].bytes[..]), ("file", file));
            assert_eq!(parts[1].filename.as_deref(), Some("a.jsonl"));
            assert_eq!(parts[1].content_type, "text/x");
        }
    }

    #[test]
    fn a_broken_form_is_no_form() {
        let whole = form(b"data");
        let end = whole.len() - "--\r\n".len();
        for cut in 0..end {
            assert!(parts_of(&whole.slice(..cut), "b").is_none(), "{cut}");
        }
    }

    #[test]
    fn the_boundary_may_be_quoted() {
        assert_eq!(boundary_of("multipart/form-data; boundary=\"x y\""), Some("x y"));
        assert_eq!(boundary_of("multipart/form-data; charset=u; boundary=x"), Some("x"));
        assert_eq!(boundary_of("application/json"), None);
        assert_eq!(boundary_of("multipart/form-data; boundary="), None);
    }

    #[test]
    fn the_store_is_bounded() {
        let store = FileStore::default();
        for number in 0..2 * MOST_FILES {
            store.put(number.to_string(), Bytes::from_static(b"x"));
        }
        assert!(store.get("0").is_none() && store.get("127").is_some());
        store.put("large".into(), vec![0; MOST_BYTES + 1].into());
        assert!(store.get("large").is_none());
        assert_eq!(store.get(BUILT_IN).unwrap().len(), 4096);
    }
}
