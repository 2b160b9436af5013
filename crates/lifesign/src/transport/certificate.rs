//! Why a server's certificate was refused, in words that say what to do about it.

use std::fmt;

use jiff::Timestamp;
use rustls::{CertificateError, OtherError};
use rustls_pki_types::UnixTime;

/// Why a server's certificate was refused. Another try meets the same certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CertificateFault {
    /// It is marked as an authority's, and a server may not use it as its own.
    Authority,
    /// Its time is over.
    Expired {
        /// When it ended, if that is known.
        at: Option<Timestamp>,
    },
    /// It was issued by nobody this machine trusts.
    Issuer,
    /// It is for other hosts than the one that was called.
    Name {
        /// Those it is for, as far as they are known.
        names: Vec<String>,
    },
    /// Its time has not begun.
    NotYetValid {
        /// When it begins, if that is known.
        from: Option<Timestamp>,
    },
    /// Something else; the cause says what.
    Other,
}

impl CertificateFault {
    pub(super) fn of(error: &CertificateError) -> Self {
        match error {
            // A bad signature is that of a root which only bears the name of the issuer.
            CertificateError::UnknownIssuer | CertificateError::BadSignature => Self::Issuer,
            CertificateError::Expired => Self::Expired { at: None },
            CertificateError::ExpiredContext { not_after, .. } => Self::Expired {
                at: timestamp(*not_after),
            },
            CertificateError::NotValidYet => Self::NotYetValid { from: None },
            CertificateError::NotValidYetContext { not_before, .. } => Self::NotYetValid {
                from: timestamp(*not_before),
            },
            CertificateError::NotValidForName => Self::Name { names: Vec::new() },
            CertificateError::NotValidForNameContext { presented, .. } => Self::Name {
                names: presented.iter().filter_map(|name| plain(name)).collect(),
            },
            CertificateError::Other(OtherError(cause))
                if matches!(cause.downcast_ref(), Some(webpki::Error::CaUsedAsEndEntity)) =>
            {
                Self::Authority
            }
            _ => Self::Other,
        }
    }

    /// Whether its words say all that the cause knows.
    pub(super) const fn is_whole(&self) -> bool {
        !matches!(self, Self::Other)
    }

    /// Returns what to do about it, where something is known to help.
    pub(super) const fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Authority => Some(
                "give the server a certificate without the mark of an authority (openssl: \
                 basicConstraints=CA:FALSE), and whoever signed it in `tls_extra_roots`",
            ),
            Self::Expired { .. } => {
                Some("have the server's certificate renewed, and check this machine's clock")
            }
            Self::Issuer => Some(
                "if the upstream uses a private authority or signed itself, give that certificate \
                 in `tls_extra_roots`",
            ),
            Self::Name { .. } => Some("call the server by a name that its certificate has"),
            Self::NotYetValid { .. } => Some("check this machine's clock and the server's"),
            Self::Other => None,
        }
    }
}

/// A predicate of the certificate.
impl fmt::Display for CertificateFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Authority => {
                f.write_str("is that of an authority, which a server may not use as its own")
            }
            Self::Expired { at: Some(at) } => write!(f, "expired at {at}"),
            Self::Expired { at: None } => f.write_str("has expired"),
            Self::Issuer => f.write_str("is signed by an unknown authority"),
            Self::Name { names } => match names.get(..NAMES_SHOWN.min(names.len())) {
                None | Some([]) => f.write_str("is not for that name"),
                Some(shown) => {
                    write!(f, "is not for that name but for {}", shown.join(", "))?;
                    match names.len() - shown.len() {
                        0 => Ok(()),
                        more => write!(f, " and {more} more"),
                    }
                }
            },
            Self::NotYetValid { from: Some(from) } => write!(f, "is not valid before {from}"),
            Self::NotYetValid { from: None } => f.write_str("is not valid yet"),
            Self::Other => f.write_str("is not valid"),
        }
    }
}

fn timestamp(time: UnixTime) -> Option<Timestamp> {
    let seconds = i64::try_from(time.as_secs()).ok()?;
    Timestamp::from_second(seconds).ok()
}

/// Returns a name as people write it: webpki gives `DnsName("a.test")` and `IpAddress(::1)`.
fn plain(presented: &str) -> Option<String> {
    let inner = presented
        .strip_prefix("DnsName(")
        .or_else(|| presented.strip_prefix("IpAddress("))?
        .strip_suffix(')')?;
    let name: String = inner
        .trim_matches('"')
        .chars()
        .filter(char::is_ascii_graphic)
        .take(LONGEST_NAME)
        .collect();
    (!name.is_empty()).then_some(name)
}

/// A certificate may have hundreds of names.
const NAMES_SHOWN: usize = 4;

/// The longest name that DNS has, in characters (RFC 1035, section 2.3.4).
const LONGEST_NAME: usize = 255;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_names_a_few_are_shown_and_the_rest_counted() {
        let names = |count: usize| CertificateFault::Name {
            names: (0..count).map(|n| format!("{n}.test")).collect(),
        };

        assert_eq!(names(0).to_string(), "is not for that name");
        assert_eq!(
            names(4).to_string(),
            "is not for that name but for 0.test, 1.test, 2.test, 3.test"
        );
        assert_eq!(
            names(6).to_string(),
            "is not for that name but for 0.test, 1.test, 2.test, 3.test and 2 more"
        );
    }

    #[test]
    fn names_are_told_as_people_write_them_and_without_control_characters() {
        for (presented, name) in [
            ("DnsName(\"a.test\")", Some("a.test")),
            ("DnsName(\"*.a.test\")", Some("*.a.test")),
            ("IpAddress(127.0.0.1)", Some("127.0.0.1")),
            ("IpAddress(::1)", Some("::1")),
            ("DnsName(\"a\u{1b}[31m\n.test\")", Some("a[31m.test")),
            ("DnsName(\"\")", None),
            ("DirectoryName", None),
            ("Unsupported(0x01)", None),
        ] {
            assert_eq!(plain(presented).as_deref(), name, "{presented}");
        }
    }

    /// Verifiers of some platforms tell no more than this.
    #[test]
    fn a_fault_without_particulars_has_words_too() {
        for (error, told) in [
            (CertificateError::Expired, "has expired"),
            (CertificateError::NotValidYet, "is not valid yet"),
            (CertificateError::NotValidForName, "is not for that name"),
            (
                CertificateError::BadSignature,
                "is signed by an unknown authority",
            ),
            (CertificateError::Revoked, "is not valid"),
        ] {
            assert_eq!(CertificateFault::of(&error).to_string(), told);
        }
    }
}
