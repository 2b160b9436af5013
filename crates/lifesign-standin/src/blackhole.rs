//! An address that swallows connection attempts.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
};

use socket2::{Domain, SockAddr, Socket, Type};

/// A listener whose queue is full, so that the kernel drops every further SYN: connecting to it
/// hangs until whoever connects gives up. It closes when dropped.
#[derive(Debug)]
pub struct Blackhole {
    address: SocketAddr,
    _listener: Socket,
    _waiting: Vec<Socket>,
}

impl Blackhole {
    /// Opens one on a free port of 127.0.0.1.
    ///
    /// # Errors
    ///
    /// A socket cannot be opened or bound.
    pub fn open() -> io::Result<Self> {
        let listener = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        listener.bind(&SockAddr::from(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))))?;
        listener.listen(0)?;
        let address = listener.local_addr()?;
        let mut waiting = Vec::new();
        // One connection fills a queue of length 0; the others make sure of it.
        for _ in 0..FILL {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
            socket.set_nonblocking(true)?;
            // The attempt itself is what counts; it stays in progress.
            if socket.connect(&address).is_ok() {
                tracing::trace!("connected at once");
            }
            waiting.push(socket);
        }
        let address = address.as_socket().ok_or(io::ErrorKind::AddrNotAvailable)?;
        Ok(Self {
            address,
            _listener: listener,
            _waiting: waiting,
        })
    }

    /// Returns the address that swallows connection attempts.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns its base URL without a path.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

const FILL: usize = 4;
