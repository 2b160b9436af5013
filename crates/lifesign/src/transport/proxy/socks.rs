//! SOCKS version 5 (RFC 1928), with a user name and password where there are some (RFC 1929).

use std::io;
use std::net::IpAddr;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Why a SOCKS proxy opened no way.
#[derive(Debug)]
pub(super) enum SocksError {
    /// The connection to the proxy failed.
    Io(io::Error),
    /// The proxy wants credentials, or others.
    Login,
    /// The reply code of a request that was refused.
    Refused(u8),
    /// The proxy does not speak SOCKS 5.
    Unreadable,
}

impl From<io::Error> for SocksError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// What the proxy is asked to connect to.
#[derive(Clone, Copy, Debug)]
pub(super) enum Target<'a> {
    Address(IpAddr),
    /// At most 255 bytes.
    Name(&'a str),
}

/// Asks for a way to `target`.
pub(super) async fn connect<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    target: Target<'_>,
    port: u16,
    login: Option<&(String, String)>,
) -> Result<(), SocksError> {
    let method = if login.is_some() { PASSWORD } else { OPEN };
    stream.write_all(&[VERSION, 1, method]).await?;
    stream.flush().await?;
    match read(stream).await? {
        [VERSION, OPEN] => {}
        [VERSION, PASSWORD] => log_in(stream, login.ok_or(SocksError::Login)?).await?,
        [VERSION, _] => return Err(SocksError::Login),
        _ => return Err(SocksError::Unreadable),
    }

    let mut request = vec![VERSION, CONNECT, 0];
    match target {
        Target::Address(IpAddr::V4(ip)) => {
            request.push(IPV4);
            request.extend(ip.octets());
        }
        Target::Address(IpAddr::V6(ip)) => {
            request.push(IPV6);
            request.extend(ip.octets());
        }
        Target::Name(name) => {
            request.push(NAME);
            push_short(&mut request, name)?;
        }
    }
    request.extend(port.to_be_bytes());
    stream.write_all(&request).await?;
    stream.flush().await?;

    let [version, reply, _, kind] = read(stream).await?;
    if version != VERSION {
        return Err(SocksError::Unreadable);
    }
    if reply != GRANTED {
        return Err(SocksError::Refused(reply));
    }
    // The address that the proxy bound, which nobody needs, and its port.
    let len = match kind {
        IPV4 => 4,
        IPV6 => 16,
        NAME => usize::from(stream.read_u8().await?),
        _ => return Err(SocksError::Unreadable),
    };
    stream.read_exact(&mut vec![0; len + 2]).await?;
    Ok(())
}

async fn log_in<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    (user, password): &(String, String),
) -> Result<(), SocksError> {
    let mut request = vec![LOGIN_VERSION];
    push_short(&mut request, user)?;
    push_short(&mut request, password)?;
    stream.write_all(&request).await?;
    stream.flush().await?;
    match read(stream).await? {
        [_, GRANTED] => Ok(()),
        _ => Err(SocksError::Login),
    }
}

/// Appends a text after its length.
fn push_short(request: &mut Vec<u8>, text: &str) -> Result<(), SocksError> {
    let len = u8::try_from(text.len()).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    request.push(len);
    request.extend(text.as_bytes());
    Ok(())
}

async fn read<S: AsyncRead + Unpin, const N: usize>(stream: &mut S) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes).await?;
    Ok(bytes)
}

const VERSION: u8 = 5;
const LOGIN_VERSION: u8 = 1;
const OPEN: u8 = 0;
const PASSWORD: u8 = 2;
const CONNECT: u8 = 1;
const GRANTED: u8 = 0;
const IPV4: u8 = 1;
const NAME: u8 = 3;
const IPV6: u8 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs `connect` against a proxy that says `says`; returns the outcome and what it was sent.
    async fn run(
        says: &[u8],
        target: Target<'_>,
        login: Option<&(String, String)>,
    ) -> (Result<(), SocksError>, Vec<u8>) {
        let (mut ours, mut theirs) = tokio::io::duplex(1024);
        theirs.write_all(says).await.unwrap();
        theirs.shutdown().await.unwrap();
        let outcome = connect(&mut ours, target, 443, login).await;
        drop(ours);
        let mut sent = Vec::new();
        theirs.read_to_end(&mut sent).await.unwrap();
        (outcome, sent)
    }

    #[tokio::test]
    async fn a_name_is_left_to_the_proxy_to_look_up() {
        let says = [5, 0, 5, 0, 0, 1, 0, 0, 0, 0, 0, 0];

        let (outcome, sent) = run(&says, Target::Name("a.test"), None).await;

        assert!(outcome.is_ok(), "{outcome:?}");
        assert_eq!(sent, b"\x05\x01\x00\x05\x01\x00\x03\x06a.test\x01\xbb");
    }

    #[tokio::test]
    async fn an_address_goes_as_an_address_after_the_login() {
        let login = ("me".to_owned(), "word".to_owned());
        let says = [5, 2, 1, 0, 5, 0, 0, 3, 1, b'x', 0, 0];
        let target = Target::Address(IpAddr::from([10, 0, 0, 7]));

        let (outcome, sent) = run(&says, target, Some(&login)).await;

        assert!(outcome.is_ok(), "{outcome:?}");
        assert_eq!(
            sent,
            b"\x05\x01\x02\x01\x02me\x04word\x05\x01\x00\x01\x0a\x00\x00\x07\x01\xbb"
        );
    }

    #[tokio::test]
    async fn each_refusal_is_told_apart() {
        let login = ("me".to_owned(), "word".to_owned());
        let name = Target::Name("a.test");

        let (wants_login, _) = run(&[5, 0xff], name, None).await;
        let (wrong_login, _) = run(&[5, 2, 1, 1], name, Some(&login)).await;
        let (refused, _) = run(&[5, 0, 5, 2, 0, 1], name, None).await;
        let (other, _) = run(b"HTTP/1.1 400", name, None).await;
        let (gone, _) = run(&[5], name, None).await;

        assert!(matches!(wants_login, Err(SocksError::Login)));
        assert!(matches!(wrong_login, Err(SocksError::Login)));
        assert!(matches!(refused, Err(SocksError::Refused(2))));
        assert!(matches!(other, Err(SocksError::Unreadable)));
        assert!(matches!(gone, Err(SocksError::Io(_))));
    }
}
