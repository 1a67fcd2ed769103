//! Listen addresses: a port, an address, or both, of either IP version.
//!
//! Deliberately not here: host names other than `localhost`. A name can change
//! its address; what a gate listens on must not.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Parses `127.0.0.1:8080`, `127.0.0.1`, `:8080`, `8080`, `::`, `[::1]`,
/// `[::]:8080` and `localhost:8080`.
///
/// A port without an address means loopback: what others may reach has to be
/// said. `:8080` means every address, as it does in most servers.
pub(super) fn parse(text: &str, port: u16) -> Result<SocketAddr, String> {
    let wrong = || {
        format!(
            "`{}` is no address to listen on: write `127.0.0.1:{port}`, `[::]:{port}` or `:{port}`",
            text.escape_debug()
        )
    };
    let text = text.trim();
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Ok(address);
    }
    if let Ok(port) = text.parse::<u16>() {
        return Ok(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port));
    }
    if let Some(ip) = host(text) {
        return Ok(SocketAddr::new(ip, port));
    }
    let (name, port) = text.rsplit_once(':').ok_or_else(wrong)?;
    let port = port.parse().map_err(|_| wrong())?;
    let ip = if name.is_empty() { Some(Ipv6Addr::UNSPECIFIED.into()) } else { host(name) };
    Ok(SocketAddr::new(ip.ok_or_else(wrong)?, port))
}

fn host(text: &str) -> Option<IpAddr> {
    if text.eq_ignore_ascii_case("localhost") {
        return Some(Ipv4Addr::LOCALHOST.into());
    }
    let bare = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')).unwrap_or(text);
    bare.parse().ok()
}

/// Whether only this machine can reach it.
pub(super) fn is_loopback(address: &SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_usual_form_is_an_address() {
        for (text, address) in [
            ("127.0.0.1:8080", "127.0.0.1:8080"),
            ("0.0.0.0", "0.0.0.0:9"),
            ("8080", "127.0.0.1:8080"),
            (":8080", "[::]:8080"),
            ("::", "[::]:9"),
            ("[::]", "[::]:9"),
            ("[::]:8080", "[::]:8080"),
            ("::1", "[::1]:9"),
            ("[::1]:0", "[::1]:0"),
            ("localhost:81", "127.0.0.1:81"),
            ("localhost", "127.0.0.1:9"),
        ] {
            assert_eq!(parse(text, 9).unwrap(), address.parse().unwrap(), "{text}");
        }
    }

    #[test]
    fn what_is_none_says_how_to_write_one() {
        for text in [
            "",
            "example.com:80",
            "127.0.0.1:99999",
            "http://127.0.0.1",
            "[::",
            "1.2.3.4.5",
            "70000",
            "::1:x",
        ] {
            assert!(parse(text, 9).unwrap_err().contains("write `127.0.0.1:9`"), "{text}");
        }
    }

    #[test]
    fn loopback_is_seen_in_both_versions() {
        let loopback = |text: &str| is_loopback(&parse(text, 9).unwrap());
        assert!(loopback("127.9.9.9") && loopback("::1") && loopback("[::ffff:127.0.0.1]:8"));
        assert!(!loopback("::") && !loopback("0.0.0.0") && !loopback(":80") && !loopback("10.0.0.1"));
    }
}
