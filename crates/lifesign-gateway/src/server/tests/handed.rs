//! Sockets that a service manager hands over, to a process of their own as it does.

use std::{
    net::TcpListener,
    os::fd::OwnedFd,
    process::{Command, Stdio},
};

use pretty_assertions::assert_eq;

use super::*;

/// Set for the process that is handed the socket.
const IS_CHILD: &str = "LIFESIGN_TEST_TAKES_SOCKETS";

#[tokio::test]
async fn a_socket_that_was_handed_over_is_served() {
    if std::env::var_os(IS_CHILD).is_some() {
        return serve_what_was_handed_over().await;
    }
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let this = "server::tests::handed::a_socket_that_was_handed_over_is_served";
    // The first socket is descriptor 3, and the process is named by its id.
    let script = "exec 3<&0 </dev/null; LISTEN_FDS=1 LISTEN_PID=$$ exec \"$0\" --exact \"$1\"";
    let child = Command::new("sh")
        .args(["-c", script])
        .arg(std::env::current_exe().unwrap())
        .arg(this)
        .env(IS_CHILD, "1")
        .stdin(Stdio::from(OwnedFd::from(listener)))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();

    let mut caller = TcpStream::connect(address).await.unwrap();
    send(&mut caller, &["GET /drain HTTP/1.1\r\nHost: a\r\n\r\n"]).await;
    let answer = read_to_end(&mut caller).await;
    let output = child.wait_with_output().unwrap();

    assert!(answer.ends_with("done"), "{answer}");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
}

async fn serve_what_was_handed_over() {
    let inherited = Inherited::take().unwrap();
    assert_eq!(inherited.bound().len(), 1);
    let server = Server::bind(&[], inherited, None, ServerLimits::default()).unwrap();
    let service = TestService::new();
    *service.drain.lock().unwrap() = Some(server.drain());
    let workers = NonZeroUsize::new(2).unwrap();
    server.run(service, workers).await.unwrap();
}
