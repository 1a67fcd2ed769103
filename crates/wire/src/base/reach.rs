//! How far away a host is, by its address or the form of its name.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use url::Host;

/// Ends of names that no public host has (RFC 6761, 6762, 8375, 9476 and the usage of clusters and homes).
const LOCAL_NAMES: [&str; 7] = [".local", ".internal", ".localhost", ".lan", ".svc", ".test", ".home.arpa"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// This machine, or a network of one's own.
    Local,
    /// This link alone: where clouds put their metadata service.
    LinkLocal,
    /// Through networks that others can read.
    Public,
}

impl Reach {
    pub(super) fn of(host: &Host<&str>) -> Reach {
        match host {
            Host::Domain(name) if is_local_name(name) => Reach::Local,
            Host::Domain(_) => Reach::Public,
            Host::Ipv4(address) => of_v4(*address),
            Host::Ipv6(address) => match address.to_canonical() {
                IpAddr::V4(address) => of_v4(address),
                IpAddr::V6(address) => of_v6(address),
            },
        }
    }
}

/// The parser has put names in lower case.
fn is_local_name(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    !name.contains('.') || LOCAL_NAMES.iter().any(|end| name.ends_with(end))
}

/// The unspecified address is this machine, when one connects to it.
fn of_v4(address: Ipv4Addr) -> Reach {
    if address.is_link_local() {
        Reach::LinkLocal
    } else if address.is_loopback() || address.is_private() || address.is_unspecified() {
        Reach::Local
    } else {
        Reach::Public
    }
}

/// A link-local address of IPv6 is a neighbour's ordinary one.
fn of_v6(address: Ipv6Addr) -> Reach {
    let own = address.is_loopback()
        || address.is_unspecified()
        || address.is_unique_local()
        || address.is_unicast_link_local();
    if own { Reach::Local } else { Reach::Public }
}
