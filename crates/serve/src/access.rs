//! Who may ask: keys, compared in constant time; and, on an address of this machine alone, only pages and names of this
//! machine, so that a page of a stranger cannot reach the server through the browser of its owner (DNS rebinding).

use crate::body::Call;
use crate::error::{ApiError, ApiResult};
use hyper::StatusCode;
use std::net::IpAddr;

/// The rules.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// fingerprints of the keys; none: everybody may ask
    keys: Vec<blake3::Hash>,
    /// whether only this machine can reach the server
    pub local: bool,
    /// names besides those of this machine that requests may call the server by
    pub hosts: Vec<String>,
    /// pages of other servers that may ask, as `https://name:port`, or `*`
    pub origins: Vec<String>,
}

impl Access {
    /// Everybody who can reach the server may ask; `local` says that only this machine can.
    pub fn open(local: bool) -> Self {
        Self { local, ..Self::default() }
    }

    /// With these keys; empty lines are none.
    pub fn with_keys<'a>(self, keys: impl IntoIterator<Item = &'a str>) -> Self {
        let keys = keys.into_iter().map(str::trim).filter(|k| !k.is_empty()).map(|k| blake3::hash(k.as_bytes()));
        Self { keys: keys.collect(), ..self }
    }

    /// Whether a key is wanted.
    pub fn has_keys(&self) -> bool {
        !self.keys.is_empty()
    }

    /// Refuses who may not ask. The origin that may read the answer, where a page asks.
    pub fn check(&self, call: &Call, open: bool) -> ApiResult<Option<String>> {
        let host = call.header("host").or_else(|| call.parts.uri.authority().map(|a| a.as_str())).unwrap_or_default();
        if self.local && !self.is_own(name_of(host)) {
            let what = "this server answers to the names of its own machine only";
            return Err(ApiError::new(StatusCode::FORBIDDEN, what).code("host_not_allowed"));
        }
        let origin = match call.header("origin") {
            None => None,
            Some(origin) if self.origins.iter().any(|o| o == origin || o == "*") => Some(origin.to_string()),
            Some(origin) if origin.split_once("://").is_some_and(|(_, authority)| authority == host) => None,
            Some(_) => {
                let what = "pages of other servers may not ask here";
                return Err(ApiError::new(StatusCode::FORBIDDEN, what).code("origin_not_allowed"));
            }
        };
        if !open && self.has_keys() && !self.holds_key(call) {
            let what = "a valid key is needed, as in `Authorization: Bearer KEY`";
            return Err(ApiError::new(StatusCode::UNAUTHORIZED, what).code("invalid_api_key"));
        }
        Ok(origin)
    }

    fn holds_key(&self, call: &Call) -> bool {
        let bearer = call.header("authorization").and_then(|v| {
            let (scheme, key) = v.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then_some(key.trim())
        });
        let Some(given) = bearer.or_else(|| call.header("x-api-key")) else { return false };
        // Fingerprints of one length, compared in constant time, every one of them: the time tells nothing of a key.
        let given = blake3::hash(given.as_bytes());
        self.keys.iter().fold(false, |found, key| (*key == given) | found)
    }

    fn is_own(&self, host: &str) -> bool {
        let loopback = host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
        loopback || host.eq_ignore_ascii_case("localhost") || self.hosts.iter().any(|h| h.eq_ignore_ascii_case(host))
    }
}

/// A host without its port.
fn name_of(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port))
            if port.bytes().all(|b| b.is_ascii_digit()) && (!name.contains(':') || name.ends_with(']')) =>
        {
            name
        }
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_this_machine_are_its_own_and_others_are_not() {
        let access = Access { hosts: vec!["box.lan".into()], ..Access::default() };
        for own in ["localhost", "localhost:80", "127.0.0.1:8080", "[::1]:8080", "LOCALHOST:1", "box.lan:9"] {
            assert!(access.is_own(name_of(own)), "{own}");
        }
        for other in ["localhost.evil.com", "evil.com:80", "127.0.0.1.evil.com", "", "[::2]:80", "169.254.169.254"] {
            assert!(!access.is_own(name_of(other)), "{other}");
        }
    }
}
