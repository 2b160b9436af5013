//! Where to listen.

use std::{
    fmt, fs, io,
    net::{self, SocketAddr},
    os::unix::{
        fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _},
        net as unix,
    },
    path::{Path, PathBuf},
};

use listenfd::ListenFd;
use socket2::{Domain, SockAddr, SockRef, Socket, Type};

use super::peer::Reach;

/// An address to listen on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ListenOn {
    Tcp(SocketAddr),
    /// The path of a socket file. Only its owner may connect.
    Unix(PathBuf),
}

impl fmt::Display for ListenOn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// Where a listener listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Bound {
    Tcp(SocketAddr),
    /// A unix socket; one that was handed over may have no path.
    Unix(Option<PathBuf>),
}

impl Bound {
    /// Returns from where it can be reached.
    pub(crate) fn reach(&self) -> Reach {
        match self {
            Self::Tcp(address) if address.ip().to_canonical().is_loopback() => Reach::Loopback,
            Self::Tcp(_) => Reach::Other,
            Self::Unix(_) => Reach::Unix,
        }
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(Some(path)) => write!(f, "unix:{}", path.display()),
            Self::Unix(None) => f.write_str("unix"),
        }
    }
}

/// An address that cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {on}")]
pub(crate) struct ListenError {
    /// The address, or the number of the socket that was handed over.
    pub(crate) on: String,
    #[source]
    pub(crate) source: io::Error,
}

/// Sockets that a service manager handed over (`LISTEN_FDS`).
#[derive(Debug, Default)]
pub(crate) struct Inherited {
    pub(super) listeners: Vec<Listener>,
}

impl Inherited {
    /// Takes what was handed over, once for the process.
    pub(crate) fn take() -> Result<Self, ListenError> {
        let mut handed = ListenFd::from_env();
        let mut listeners = Vec::new();
        for index in 0..handed.len() {
            let failed = |source| ListenError {
                on: format!("socket {index} of LISTEN_FDS"),
                source,
            };
            // A socket of the other kind is refused and left where it is.
            let listener = match handed.take_unix_listener(index) {
                Ok(Some(listener)) => Listener::of_unix(listener, None),
                Ok(None) | Err(_) => match handed.take_tcp_listener(index) {
                    Ok(Some(listener)) => Listener::of_tcp(listener),
                    Ok(None) => continue,
                    Err(error) => Err(error),
                },
            };
            listeners.push(listener.map_err(failed)?);
        }
        Ok(Self { listeners })
    }

    /// Returns where they listen.
    pub(crate) fn bound(&self) -> Vec<Bound> {
        self.listeners.iter().map(Listener::bound).collect()
    }
}

/// A socket that listens.
#[derive(Debug)]
pub(super) struct Listener {
    pub(super) socket: ListenSocket,
    bound: Bound,
    /// Removes the socket file with the listener that made it.
    _file: Option<SocketFile>,
}

#[derive(Debug)]
pub(super) enum ListenSocket {
    Tcp(net::TcpListener),
    Unix(unix::UnixListener),
}

impl Listener {
    pub(super) fn bind(on: &ListenOn) -> Result<Self, ListenError> {
        let listener = match on {
            ListenOn::Tcp(address) => bind_tcp(*address).and_then(Self::of_tcp),
            ListenOn::Unix(path) => {
                bind_unix(path).and_then(|(listener, file)| Self::of_unix(listener, Some(file)))
            }
        };
        listener.map_err(|source| ListenError {
            on: on.to_string(),
            source,
        })
    }

    pub(super) fn bound(&self) -> Bound {
        self.bound.clone()
    }

    pub(super) fn is_tcp(&self) -> bool {
        matches!(self.socket, ListenSocket::Tcp(_))
    }

    /// Returns another handle of the same socket, which does not own its file.
    pub(super) fn try_clone(&self) -> io::Result<Self> {
        let socket = match &self.socket {
            ListenSocket::Tcp(listener) => ListenSocket::Tcp(listener.try_clone()?),
            ListenSocket::Unix(listener) => ListenSocket::Unix(listener.try_clone()?),
        };
        Ok(Self {
            socket,
            bound: self.bound.clone(),
            _file: None,
        })
    }

    fn of_tcp(listener: net::TcpListener) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        // Connections inherit it. Without it the kernel would take megabytes for each reader that
        // does not read, and nobody would notice that it does not.
        SockRef::from(&listener).set_send_buffer_size(SEND_BUFFER)?;
        Ok(Self {
            bound: Bound::Tcp(listener.local_addr()?),
            socket: ListenSocket::Tcp(listener),
            _file: None,
        })
    }

    fn of_unix(listener: unix::UnixListener, file: Option<SocketFile>) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        Ok(Self {
            bound: Bound::Unix(address.as_pathname().map(Path::to_owned)),
            socket: ListenSocket::Unix(listener),
            _file: file,
        })
    }
}

fn bind_tcp(address: SocketAddr) -> io::Result<net::TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    if address.is_ipv6() {
        // `[::]` beside `0.0.0.0` is two listeners.
        socket.set_only_v6(true)?;
    }
    // A restart must not wait for connections of the former process to be forgotten.
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

fn bind_unix(path: &Path) -> io::Result<(unix::UnixListener, SocketFile)> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    let address = SockAddr::unix(path)?;
    if let Err(error) = socket.bind(&address) {
        if error.kind() != io::ErrorKind::AddrInUse || !is_stale(path)? {
            return Err(error);
        }
        tracing::info!(path = %path.display(), "removing a socket file that nobody answers on");
        fs::remove_file(path)?;
        socket.bind(&address)?;
    }
    let file = SocketFile::new(path)?;
    // Nobody can connect before it listens, so nobody does before the mode is set.
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    socket.listen(BACKLOG)?;
    Ok((socket.into(), file))
}

/// Returns whether a path is a socket file that nobody answers on.
fn is_stale(path: &Path) -> io::Result<bool> {
    if !fs::symlink_metadata(path)?.file_type().is_socket() {
        return Ok(false);
    }
    match unix::UnixStream::connect(path) {
        Ok(_answered) => Ok(false),
        Err(error) => Ok(error.kind() == io::ErrorKind::ConnectionRefused),
    }
}

/// A socket file that is ours.
#[derive(Debug)]
struct SocketFile {
    path: PathBuf,
    /// Device and inode, since a successor may have put its own in the place.
    identity: (u64, u64),
}

impl SocketFile {
    fn new(path: &Path) -> io::Result<Self> {
        Ok(Self {
            path: path.to_owned(),
            identity: identity(path)?,
        })
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if identity(&self.path).is_ok_and(|identity| identity == self.identity)
            && let Err(error) = fs::remove_file(&self.path)
        {
            tracing::warn!(path = %self.path.display(), %error, "cannot remove the socket file");
        }
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let metadata = fs::symlink_metadata(path)?;
    Ok((metadata.dev(), metadata.ino()))
}

/// Connections that the kernel holds until they are accepted; it caps it at `somaxconn`.
const BACKLOG: i32 = 4096;
/// The kernel doubles it for its own accounting.
const SEND_BUFFER: usize = 128 << 10;

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_socket_file_is_its_owners_alone_and_goes_with_the_listener() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lifesign.sock");

        let listener = Listener::bind(&ListenOn::Unix(path.clone())).unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        drop(listener.try_clone().unwrap());
        let stays = path.exists();
        drop(listener);

        assert_eq!(mode & 0o777, 0o600);
        assert!(stays);
        assert!(!path.exists());
    }

    #[test]
    fn a_socket_file_that_nobody_answers_on_is_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lifesign.sock");
        drop(unix::UnixListener::bind(&path).unwrap());

        Listener::bind(&ListenOn::Unix(path)).unwrap();
    }

    #[test]
    fn a_socket_that_is_answered_and_a_file_that_is_no_socket_stay() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lifesign.sock");
        let file = directory.path().join("file");
        fs::write(&file, "kept").unwrap();

        let first = Listener::bind(&ListenOn::Unix(path.clone())).unwrap();
        let second = Listener::bind(&ListenOn::Unix(path.clone())).unwrap_err();
        Listener::bind(&ListenOn::Unix(file.clone())).unwrap_err();

        assert_eq!(second.source.kind(), io::ErrorKind::AddrInUse);
        assert_eq!(
            second.to_string(),
            format!("cannot listen on unix:{}", path.display())
        );
        assert!(unix::UnixStream::connect(&path).is_ok());
        assert_eq!(fs::read_to_string(file).unwrap(), "kept");
        drop(first);
    }

    #[test]
    fn a_successors_socket_file_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lifesign.sock");

        let first = Listener::bind(&ListenOn::Unix(path.clone())).unwrap();
        let aside = directory.path().join("aside");
        fs::rename(&path, &aside).unwrap();
        let second = Listener::bind(&ListenOn::Unix(path.clone())).unwrap();
        drop(first);

        assert!(unix::UnixStream::connect(&path).is_ok());
        drop(second);
    }

    #[test]
    fn an_address_says_from_where_it_is_reached() {
        let on = |address: &str| Bound::Tcp(address.parse().unwrap()).reach();

        assert_eq!(on("127.0.0.1:1"), Reach::Loopback);
        assert_eq!(on("[::1]:1"), Reach::Loopback);
        assert_eq!(on("[::ffff:127.0.0.1]:1"), Reach::Loopback);
        assert_eq!(on("0.0.0.0:1"), Reach::Other);
        assert_eq!(on("[::]:1"), Reach::Other);
        assert_eq!(Bound::Unix(None).reach(), Reach::Unix);
        let free = Listener::bind(&ListenOn::Tcp((Ipv4Addr::LOCALHOST, 0).into())).unwrap();
        assert_eq!(free.bound().reach(), Reach::Loopback);
    }
}
