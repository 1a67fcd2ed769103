//! The headers of an answer that is shared or kept: in a row, in one allocation.
//!
//! A map of headers holds the whole buffer that they were read into, for as long as one of them lives. What stays
//! for longer than a call does is copied out of there.

use bytes::{BufMut, Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue};

/// All headers, each as the two lengths and the two texts.
pub(crate) fn pack(headers: &HeaderMap) -> Bytes {
    let size = headers.iter().map(|(name, value)| 8 + name.as_str().len() + value.len()).sum();
    let mut bytes = BytesMut::with_capacity(size);
    for (name, value) in headers {
        bytes.put_u32(name.as_str().len() as u32);
        bytes.put_u32(value.len() as u32);
        bytes.extend_from_slice(name.as_str().as_bytes());
        bytes.extend_from_slice(value.as_bytes());
    }
    bytes.freeze()
}

/// Those of them that are `wanted`, in their order.
pub(crate) fn unpack(mut bytes: &[u8], wanted: impl Fn(&HeaderName) -> bool) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(24);
    while let Some((lengths, rest)) = bytes.split_first_chunk::<8>() {
        let [name, value] = [&lengths[..4], &lengths[4..]]
            .map(|length| length.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)));
        let Some((name, rest)) = rest.split_at_checked(name) else { break };
        let Some((value, rest)) = rest.split_at_checked(value) else { break };
        if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name), HeaderValue::from_bytes(value))
            && wanted(&name)
        {
            headers.append(name, value);
        }
        bytes = rest;
    }
    headers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_come_out_as_they_went_in_and_a_torn_row_is_no_fault() {
        let mut headers = HeaderMap::new();
        for (name, value) in
            [("content-type", "application/json"), ("x-two", "1"), ("x-two", "2"), ("x-none", "")]
        {
            headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        let packed = pack(&headers);
        assert_eq!(unpack(&packed, |_| true), headers);
        assert_eq!(unpack(&packed, |name| name == "x-two").len(), 2);
        for cut in 0..packed.len() {
            assert!(unpack(&packed[..cut], |_| true).len() < 4);
        }
    }
}
