//! An answer as bytes, cut into the pieces in which it is sent.
//!
//! A stream is written once into one buffer; its events are slices of it. A plain answer is one piece.

use bytes::Bytes;
use serde::Serialize;

#[derive(Clone, Debug)]
pub(crate) struct Pieces {
    pub(crate) bytes: Bytes,
    pub(crate) marks: Vec<Mark>,
}

/// Where a piece ends, and whether it waits for the chunk interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) end: usize,
    pub(crate) paced: bool,
}

impl Pieces {
    pub(crate) fn whole(bytes: Bytes) -> Self {
        let marks = if bytes.is_empty() { Vec::new() } else { vec![Mark { end: bytes.len(), paced: false }] };
        Self { bytes, marks }
    }

    fn start_of(&self, at: usize) -> usize {
        at.checked_sub(1).map_or(0, |before| self.marks[before].end)
    }

    /// The first half of the pieces, and half of the next one: what a break in the middle leaves.
    pub(crate) fn first_half(mut self) -> Self {
        let at = self.marks.len() / 2;
        if let Some(&Mark { end, paced }) = self.marks.get(at) {
            let start = self.start_of(at);
            self.marks.truncate(at);
            self.marks.push(Mark { end: start + (end - start) / 2, paced });
            self.marks.retain(|mark| mark.end > 0);
        }
        self
    }

    /// The first half of the pieces, each whole.
    pub(crate) fn first_half_whole(mut self) -> Self {
        self.marks.truncate(self.marks.len().div_ceil(2));
        self
    }

    /// These pieces and one more.
    pub(crate) fn followed_by(self, last: &[u8]) -> Self {
        let mut bytes = self.bytes[..self.start_of(self.marks.len())].to_vec();
        let mut marks = self.marks;
        bytes.extend_from_slice(last);
        marks.push(Mark { end: bytes.len(), paced: false });
        Self { bytes: bytes.into(), marks }
    }

    /// The middle piece breaks off half way. In a stream the others stay in order, so that the break is one
    /// bad event and not the end.
    pub(crate) fn spoilt(self) -> Self {
        let middle = self.marks.len() / 2;
        let mut writer = EventWriter::default();
        for (at, mark) in self.marks.iter().enumerate() {
            let piece = &self.bytes[self.start_of(at)..mark.end];
            if at != middle {
                writer.raw(piece, mark.paced);
                continue;
            }
            let mut half = piece[..piece.len() / 2].to_vec();
            if self.marks.len() > 1 {
                half.extend_from_slice(b"\n\n");
            }
            writer.raw(&half, mark.paced);
        }
        writer.finish()
    }
}

/// Writes server-sent events.
#[derive(Default)]
pub(crate) struct EventWriter {
    bytes: Vec<u8>,
    marks: Vec<Mark>,
}

impl EventWriter {
    pub(crate) fn with_capacity(bytes: usize) -> Self {
        Self { bytes: Vec::with_capacity(bytes), marks: Vec::new() }
    }

    /// `data: …`, as OpenAI's older endpoints do.
    pub(crate) fn data(&mut self, payload: &impl Serialize, paced: bool) {
        self.bytes.extend_from_slice(b"data: ");
        self.json(payload);
        self.end(paced);
    }

    /// `event: …` and `data: …`, as Responses and Messages do.
    pub(crate) fn named(&mut self, name: &str, payload: &impl Serialize, paced: bool) {
        self.bytes.extend_from_slice(b"event: ");
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.extend_from_slice(b"\ndata: ");
        self.json(payload);
        self.end(paced);
    }

    pub(crate) fn done(&mut self) {
        self.bytes.extend_from_slice(b"data: [DONE]");
        self.end(false);
    }

    pub(crate) fn raw(&mut self, bytes: &[u8], paced: bool) {
        self.bytes.extend_from_slice(bytes);
        self.marks.push(Mark { end: self.bytes.len(), paced });
    }

    pub(crate) fn finish(self) -> Pieces {
        Pieces { bytes: self.bytes.into(), marks: self.marks }
    }

    fn json(&mut self, payload: &impl Serialize) {
        // Payloads have text keys and go to memory, so this cannot fail.
        let _ = serde_json::to_writer(&mut self.bytes, payload);
    }

    fn end(&mut self, paced: bool) {
        self.bytes.extend_from_slice(b"\n\n");
        self.marks.push(Mark { end: self.bytes.len(), paced });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn three() -> Pieces {
        let mut writer = EventWriter::default();
        writer.data(&1, false);
        writer.named("two", &2, true);
        writer.done();
        writer.finish()
    }

    fn sent(pieces: &Pieces) -> String {
        let end = pieces.marks.last().map_or(0, |mark| mark.end);
        String::from_utf8_lossy(&pieces.bytes[..end]).into_owned()
    }

    #[test]
    fn events_are_written_as_the_providers_write_them() {
        assert_eq!(sent(&three()), "data: 1\n\nevent: two\ndata: 2\n\ndata: [DONE]\n\n");
        assert_eq!(three().marks.iter().filter(|mark| mark.paced).count(), 1);
    }

    #[test]
    fn a_cut_leaves_half_an_event() {
        assert_eq!(sent(&three().first_half()), "data: 1\n\nevent: two");
        assert_eq!(sent(&Pieces::whole(Bytes::from_static(b"abcd")).first_half()), "ab");
        assert_eq!(sent(&Pieces::whole(Bytes::new()).first_half()), "");
        assert_eq!(sent(&three().first_half_whole()), "data: 1\n\nevent: two\ndata: 2\n\n");
        assert_eq!(sent(&three().first_half().followed_by(b"!")), "data: 1\n\nevent: two!");
    }

    #[test]
    fn a_spoilt_stream_has_one_bad_event_and_goes_on() {
        assert_eq!(sent(&three().spoilt()), "data: 1\n\nevent: two\n\ndata: [DONE]\n\n");
        assert_eq!(sent(&Pieces::whole(Bytes::from_static(b"{\"a\":1}")).spoilt()), "{\"a");
    }
}
