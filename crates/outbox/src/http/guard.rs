//! Which addresses may be called, and the resolver that lets nobody connect to any other.
//!
//! A name can be made to lead anywhere by whoever owns it, also from one look to the next. So the addresses are checked
//! where they are used: the client connects to those that this resolver hands out, and to no other.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use url::{Host, Url};

/// How far a request may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// To this machine: the operator wrote a loopback host down.
    Loopback,
    /// To addresses of the public Internet.
    Public,
    /// Anywhere.
    Any,
}

impl Reach {
    /// How far the requests to this URL may go.
    pub(super) fn of(url: &Url, private: bool) -> Self {
        if is_loopback(url) {
            Self::Loopback
        } else if private {
            Self::Any
        } else {
            Self::Public
        }
    }

    /// Says what is wrong with an address, if it may not be called.
    pub(super) fn refuses(self, address: IpAddr) -> Option<&'static str> {
        match self {
            Self::Any => None,
            Self::Public => special(address),
            Self::Loopback => (!address.is_loopback()).then_some("not of this machine"),
        }
    }
}

/// Whether a URL names this machine literally: `localhost`, `127.x.x.x` or `[::1]`.
pub(super) fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

/// The address that stands in a URL instead of a name: the client asks no resolver for it.
pub(super) fn literal(url: &Url) -> Option<IpAddr> {
    match url.host()? {
        Host::Domain(_) => None,
        Host::Ipv4(address) => Some(address.into()),
        Host::Ipv6(address) => Some(address.into()),
    }
}

/// What an address is, if it is none of the public Internet.
fn special(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(address) => special_v4(address),
        IpAddr::V6(address) => special_v6(address),
    }
}

fn special_v4(address: Ipv4Addr) -> Option<&'static str> {
    match address.octets() {
        [0, ..] => Some("unspecified"),
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] => Some("private"),
        [127, ..] => Some("loopback"),
        [169, 254, ..] => Some("link-local, where clouds keep their metadata"),
        [100, 64..=127, ..] => Some("of a carrier's inner network"),
        [192, 0, 2, _] | [198, 51, 100, _] | [203, 0, 113, _] => Some("for documentation"),
        [192, 0, 0, _] | [192, 88, 99, _] | [198, 18..=19, ..] => Some("for special use"),
        [224..=239, ..] => Some("multicast"),
        [240..=255, ..] => Some("reserved"),
        _ => None,
    }
}

fn special_v6(address: Ipv6Addr) -> Option<&'static str> {
    if address.is_unspecified() {
        return Some("unspecified");
    }
    if address.is_loopback() {
        return Some("loopback");
    }
    if let Some(beneath) = embedded(address) {
        return special_v4(beneath);
    }
    match address.segments() {
        [0xfc00..=0xfdff, ..] => Some("unique-local"),
        [0xfe80..=0xfebf, ..] => Some("link-local"),
        [0xff00..=0xffff, ..] => Some("multicast"),
        [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => Some("for documentation"),
        // Tunnels (Teredo) and what is no address of a host; addresses begin at 2001:200.
        [0x2001, 0..=0x1ff, ..] => Some("for special use"),
        [0x2000..=0x3fff, ..] => None,
        _ => Some("reserved"),
    }
}

/// The IPv4 address to which an IPv6 address leads in the end.
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let join = |high: u16, low: u16| Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
    match address.segments() {
        // Mapped, compatible and translated.
        [0, 0, 0, 0, 0, 0xffff, high, low]
        | [0, 0, 0, 0, 0, 0, high, low]
        | [0, 0, 0, 0, 0xffff, 0, high, low]
        // NAT64.
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low]
        // 6to4.
        | [0x2002, high, low, ..] => Some(join(high, low)),
        _ => None,
    }
}

/// Every address of a name may not be called.
#[derive(Debug)]
pub(super) struct Forbidden {
    address: IpAddr,
    what: &'static str,
}

impl fmt::Display for Forbidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { address, what } = self;
        write!(f, "it leads to {address}, which is {what}; set `private` if it should be called all the same")
    }
}

impl std::error::Error for Forbidden {}

type Looking = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>>;
type Lookup = dyn Fn(String) -> Looking + Send + Sync;

/// A resolver that hands out only addresses that may be called.
#[derive(Clone)]
pub(super) struct Guard {
    reach: Reach,
    lookup: Arc<Lookup>,
}

impl Guard {
    pub(super) fn new(reach: Reach) -> Self {
        Self { reach, lookup: Arc::new(|name| Box::pin(look_up(name))) }
    }

    /// One that is told where names lead.
    #[cfg(test)]
    pub(super) fn told(reach: Reach, addresses: &[&str]) -> Self {
        let addresses: Vec<IpAddr> = addresses.iter().map(|text| text.parse().unwrap()).collect();
        let lookup = move |_| -> Looking { Box::pin(std::future::ready(Ok(addresses.clone()))) };
        Self { reach, lookup: Arc::new(lookup) }
    }

    /// The addresses of a host that may be called.
    pub(super) async fn addresses(
        &self,
        host: &str,
    ) -> Result<Vec<IpAddr>, Box<dyn std::error::Error + Send + Sync>> {
        let (mut allowed, mut forbidden) = (Vec::new(), None);
        for address in (self.lookup)(host.to_owned()).await? {
            match self.reach.refuses(address) {
                None => allowed.push(address),
                Some(what) => forbidden = Some(Forbidden { address, what }),
            }
        }
        match forbidden {
            Some(forbidden) if allowed.is_empty() => Err(forbidden.into()),
            _ => Ok(allowed),
        }
    }
}

impl Resolve for Guard {
    fn resolve(&self, name: Name) -> Resolving {
        let guard = self.clone();
        Box::pin(async move {
            let addresses = guard.addresses(name.as_str()).await?;
            // Port 0 is replaced by that of the URL.
            let addresses: Addrs = Box::new(addresses.into_iter().map(|address| SocketAddr::new(address, 0)));
            Ok(addresses)
        })
    }
}

async fn look_up(name: String) -> io::Result<Vec<IpAddr>> {
    Ok(tokio::net::lookup_host((name, 0)).await?.map(|address| address.ip()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(address: &str) -> bool {
        Reach::Public.refuses(address.parse().unwrap()).is_some()
    }

    #[test]
    fn d9_only_addresses_of_the_public_internet_may_be_called() {
        for address in "
            0.0.0.0 0.1.2.3 10.0.0.1 172.16.0.1 172.31.255.255 192.168.1.1 127.0.0.1 127.255.0.1
            169.254.169.254 100.64.0.1 100.127.255.255 192.0.0.8 192.0.2.1 198.51.100.7 203.0.113.9
            198.18.0.1 198.19.255.1 192.88.99.1 224.0.0.1 239.1.1.1 240.0.0.1 255.255.255.255 :: ::1
            fc00::1 fd00:ec2::254 fe80::1 febf::1 fec0::1 ff02::1 2001:db8::1 3fff::1 2001::1 2001:10::1
            100::1 5f00::1 ::ffff:127.0.0.1 ::ffff:10.0.0.1 ::ffff:169.254.169.254 ::127.0.0.1
            ::10.0.0.1 ::ffff:0:192.168.0.1 64:ff9b::a9fe:a9fe 64:ff9b::10.0.0.1 64:ff9b:1::1
            2002:7f00:1:: 2002:a9fe:a9fe::1 2002:c0a8:1::1"
            .split_whitespace()
        {
            assert!(refused(address), "{address}");
        }
        for address in "
            1.1.1.1 9.255.255.255 11.0.0.1 172.15.0.1 172.32.0.1 192.167.1.1 192.169.1.1 100.63.255.255
            100.128.0.1 169.253.1.1 198.17.1.1 198.20.1.1 223.255.255.1 2606:4700:4700::1111
            2001:4860:4860::8888 2001:200::1 2a00:1450::1 64:ff9b::1.1.1.1 2002:101:101::1
            ::ffff:1.1.1.1"
            .split_whitespace()
        {
            assert!(!refused(address), "{address}");
        }
    }

    #[test]
    fn what_the_operator_wrote_down_literally_stays_on_this_machine() {
        let reach = |url: &str| Reach::of(&Url::parse(url).unwrap(), false);
        for url in ["http://localhost:80/", "http://LOCALHOST/", "http://127.1.2.3/", "http://[::1]:8/"] {
            assert_eq!(reach(url), Reach::Loopback, "{url}");
        }
        for url in ["http://localhost./", "http://localhost.example/", "http://10.0.0.1/", "http://[::2]/"] {
            assert_eq!(reach(url), Reach::Public, "{url}");
        }
        assert!(Reach::Loopback.refuses("10.0.0.1".parse().unwrap()).is_some());
        assert!(Reach::Loopback.refuses("127.0.0.1".parse().unwrap()).is_none());
        assert_eq!(Reach::of(&Url::parse("http://10.0.0.1").unwrap(), true), Reach::Any);
    }

    #[tokio::test]
    async fn of_a_name_only_the_allowed_addresses_are_handed_out() {
        let guard = Guard::told(Reach::Public, &["10.0.0.1", "1.1.1.1", "::1"]);
        assert_eq!(guard.addresses("x").await.unwrap(), ["1.1.1.1".parse::<IpAddr>().unwrap()]);
        let error = Guard::told(Reach::Public, &["10.0.0.1"]).addresses("x").await.unwrap_err();
        assert!(
            error.is::<Forbidden>() && error.to_string().contains("10.0.0.1, which is private"),
            "{error}"
        );
    }
}
