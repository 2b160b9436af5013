//! The transport against raw sockets, which can also be wrong about HTTP.

mod server;

mod http1;
mod http2;
mod proxy;
mod tls;
