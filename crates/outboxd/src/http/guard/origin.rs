//! By which name a request came, and from whose page.

use std::net::IpAddr;

use axum::http::{HeaderMap, HeaderValue, header};
use url::Url;

/// In which a browser says whose page asks.
const SITE: &str = "sec-fetch-site";

const FOREIGN: &str = "the request comes from a page of another site";

/// The host that was asked, if there is just one.
pub(super) fn host(headers: &HeaderMap) -> Option<&str> {
    let mut hosts = headers.get_all(header::HOST).iter();
    let host = hosts.next()?.to_str().ok()?;
    hosts.next().is_none().then_some(host)
}

/// Whether this is an address, localhost, or one of these names, with or without a port.
pub(super) fn is_known(host: &str, hosts: &[String]) -> bool {
    let Some(name) = name(host) else { return false };
    let bare = name.strip_suffix('.').unwrap_or(name);
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<IpAddr>().is_ok()
        || hosts.iter().any(|known| known.eq_ignore_ascii_case(bare))
}

/// The name or address of a host, without its port; none if it is more than that.
fn name(host: &str) -> Option<&str> {
    let (name, port) = match host.strip_prefix('[') {
        Some(six) => six.split_once(']')?,
        None => host.split_at(host.find(':').unwrap_or(host.len())),
    };
    let port = port.strip_prefix(':').unwrap_or(port);
    let is_plain = !name.contains(['/', '?', '#', '@', '\\']);
    (is_plain && port.bytes().all(|byte| byte.is_ascii_digit())).then_some(name)
}

/// Whether a request that changes something comes from a page of the same server; or why it does not, in words.
///
/// A browser says so by itself: in `Sec-Fetch-Site` over TLS and on this machine, in `Origin` always. What is no browser
/// says neither, and can send a token.
pub(super) fn own_site(headers: &HeaderMap) -> Result<(), &'static str> {
    if let Some(site) = headers.get(SITE) {
        return if is_own(site) { Ok(()) } else { Err(FOREIGN) };
    }
    let Some(origin) = headers.get(header::ORIGIN) else {
        return Err("the request does not say from which page it comes");
    };
    let (origin, host) = (origin.to_str().ok(), host(headers));
    match origin.zip(host).is_some_and(|(origin, host)| is_origin(origin, host)) {
        true => Ok(()),
        false => Err("the request comes from a page of another origin"),
    }
}

/// Whether a request that changes nothing may be answered; or why not, in words.
///
/// A page of another site may lead somebody here, and see nothing of it. It may not load anything from here: it would make
/// us work in somebody's name, and learn from how that goes.
pub(super) fn may_look(headers: &HeaderMap) -> Result<(), &'static str> {
    let is =
        |name: &str, value: &str| headers.get(name).is_some_and(|given| given.as_bytes() == value.as_bytes());
    let follows_link = is("sec-fetch-mode", "navigate") && is("sec-fetch-dest", "document");
    match headers.get(SITE) {
        Some(site) if !is_own(site) && !follows_link => Err(FOREIGN),
        _ => Ok(()),
    }
}

/// A page of this server, or somebody who has typed the address.
fn is_own(site: &HeaderValue) -> bool {
    [&b"same-origin"[..], b"none"].contains(&site.as_bytes())
}

/// Whether `origin` is that of the host, whose scheme only the origin knows: a proxy may speak TLS for us.
fn is_origin(origin: &str, host: &str) -> bool {
    let (Ok(origin), Some(_)) = (Url::parse(origin), name(host)) else { return false };
    let of_host = Url::parse(&format!("{}://{host}", origin.scheme()));
    matches!(origin.scheme(), "http" | "https") && of_host.is_ok_and(|host| host.origin() == origin.origin())
}

/// Whether the browser speaks TLS, by its own account.
pub(super) fn is_tls(headers: &HeaderMap) -> bool {
    headers.get(header::ORIGIN).is_some_and(|origin| origin.as_bytes().starts_with(b"https://"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[(&'static str, &str)]) -> HeaderMap {
        lines
            .iter()
            .map(|(name, value)| (name.parse().expect("a name"), value.parse().expect("a value")))
            .collect()
    }

    #[test]
    fn an_address_is_no_name() {
        for here in ["localhost", "LOCALHOST:8480", "127.0.0.1:8480", "[::1]:8480", "::1"] {
            assert_eq!(is_known(here, &[]), here != "::1", "{here}");
        }
        for there in [
            "example.com",
            "127.0.0.1.example.com",
            "localhost.example.com:80",
            "127.0.0.1:80@example.com",
            "[::1].example.com",
            "",
        ] {
            assert!(!is_known(there, &[]), "{there}");
        }
        let hosts = ["outbox.example.com".to_owned()];
        for known in ["outbox.example.com", "Outbox.Example.com:443", "outbox.example.com."] {
            assert!(is_known(known, &hosts), "{known}");
        }
        for other in ["example.com", "x.outbox.example.com", "outbox.example.com.evil.example", "."] {
            assert!(!is_known(other, &hosts), "{other}");
        }
    }

    #[test]
    fn two_hosts_are_none() {
        let mut two = headers(&[("host", "127.0.0.1")]);
        assert_eq!(host(&two), Some("127.0.0.1"));
        two.append("host", "evil.example".parse().expect("a value"));
        assert_eq!((host(&two), host(&HeaderMap::new())), (None, None));
    }

    #[test]
    fn a_change_comes_from_a_page_of_this_server() {
        let here = ("host", "outbox.example.com:8480");
        for fine in [
            &[("sec-fetch-site", "same-origin")][..],
            &[("sec-fetch-site", "none")],
            &[("sec-fetch-site", "same-origin"), ("origin", "https://outbox.example.com:8480")],
            &[("origin", "http://outbox.example.com:8480")],
            &[("origin", "https://OUTBOX.example.com:8480")],
        ] {
            let lines = [&[here][..], fine].concat();
            assert_eq!(own_site(&headers(&lines)), Ok(()), "{fine:?}");
        }
        for foreign in [
            &[][..],
            &[("sec-fetch-site", "cross-site")],
            &[("sec-fetch-site", "same-site")],
            // What the browser says first counts, whatever else is there.
            &[("sec-fetch-site", "cross-site"), ("origin", "http://outbox.example.com:8480")],
            &[("sec-fetch-site", "")],
            &[("origin", "http://evil.example")],
            &[("origin", "http://outbox.example.com")],
            &[("origin", "http://outbox.example.com:8480.evil.example")],
            &[("origin", "null")],
            &[("origin", "file://outbox.example.com:8480")],
            &[("origin", "")],
        ] {
            let lines = [&[here][..], foreign].concat();
            assert!(own_site(&headers(&lines)).is_err(), "{foreign:?}");
        }
        assert!(
            own_site(&headers(&[("origin", "http://a.example")])).is_err(),
            "nobody knows which host was asked"
        );
    }

    #[test]
    fn a_page_of_another_site_leads_here_and_loads_nothing_from_here() {
        let site = |site| ("sec-fetch-site", site);
        let (navigate, document) = (("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document"));
        for fine in [
            &[][..],
            &[site("same-origin")],
            &[site("none")],
            &[site("same-origin"), ("sec-fetch-mode", "cors"), ("sec-fetch-dest", "empty")],
            &[site("cross-site"), navigate, document],
            &[site("same-site"), navigate, document],
        ] {
            assert_eq!(may_look(&headers(fine)), Ok(()), "{fine:?}");
        }
        for foreign in [
            &[site("cross-site")][..],
            &[site("same-site")],
            &[site("")],
            &[site("cross-site"), ("sec-fetch-mode", "no-cors"), ("sec-fetch-dest", "image")],
            &[site("cross-site"), ("sec-fetch-mode", "cors"), ("sec-fetch-dest", "empty")],
            &[site("cross-site"), navigate, ("sec-fetch-dest", "iframe")],
            &[site("cross-site"), navigate],
            &[site("cross-site"), document],
        ] {
            assert_eq!(may_look(&headers(foreign)), Err(FOREIGN), "{foreign:?}");
        }
    }

    #[test]
    fn a_port_that_goes_without_saying_is_the_same_origin() {
        for (origin, host) in [
            ("https://outbox.example.com", "outbox.example.com"),
            ("https://outbox.example.com", "outbox.example.com:443"),
            ("http://127.0.0.1", "127.0.0.1:80"),
            ("http://[::1]:8480", "[::1]:8480"),
        ] {
            assert!(is_origin(origin, host), "{origin} {host}");
        }
        assert!(!is_origin("https://outbox.example.com", "outbox.example.com:80"));
        assert!(!is_origin("http://a.example", "user@a.example/"), "a host is no more than a host");
    }
}
