//! What a process is started with: sockets of a service manager, and a limit of descriptors.

use std::{
    io::{BufRead as _, BufReader},
    net::TcpListener,
    os::fd::OwnedFd,
    process::{Command, Stdio},
};

use pretty_assertions::assert_eq;

use super::*;

/// Set for the process that is handed the socket, or the limit.
const IS_CHILD: &str = "LIFESIGN_TEST_IS_STARTED_WITH";

#[tokio::test]
async fn a_socket_that_was_handed_over_is_served() {
    if std::env::var_os(IS_CHILD).is_some() {
        return serve_what_was_handed_over().await;
    }
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let this = "server::tests::started::a_socket_that_was_handed_over_is_served";
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

#[tokio::test]
async fn accepting_rests_while_descriptors_are_out_and_then_goes_on() {
    if std::env::var_os(IS_CHILD).is_some() {
        return serve_with_few_descriptors().await;
    }
    let this = "server::tests::started::accepting_rests_while_descriptors_are_out_and_then_goes_on";
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", this, "--nocapture"])
        .env(IS_CHILD, "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
    let address: SocketAddr = loop {
        let line = output.next().unwrap().unwrap();
        if let Some((_, address)) = line.split_once("listening on ") {
            break address.parse().unwrap();
        }
    };

    // All of them are taken by the kernel; the process has descriptors for fewer.
    let mut callers = Vec::new();
    for _ in 0..2 * FEW {
        let mut caller = TcpStream::connect(address).await.unwrap();
        send(&mut caller, &[GET]).await;
        callers.push(caller);
    }
    let mut last = callers.pop().unwrap();
    let early = std::pin::pin!(tokio::time::sleep(Duration::from_millis(200)));
    let mut byte = [0];
    let is_waiting = matches!(
        future::select(std::pin::pin!(last.peek(&mut byte)), early).await,
        Either::Right(_)
    );
    drop(callers);
    read_until(&mut last, "done").await;
    send(&mut last, &["GET /drain HTTP/1.1\r\nHost: a\r\n\r\n"]).await;
    read_until(&mut last, "done").await;

    assert!(is_waiting);
    assert!(child.wait().unwrap().success());
}

/// Descriptors of the process, some of which are its own.
const FEW: u64 = 40;

async fn serve_with_few_descriptors() {
    let on = ListenOn::Tcp((Ipv4Addr::LOCALHOST, 0).into());
    let server = Server::bind(&[on], Inherited::default(), None, ServerLimits::default());
    let server = server.unwrap();
    let service = TestService::new();
    *service.drain.lock().unwrap() = Some(server.drain());
    let address = server.bound().remove(0);
    let mut run = std::pin::pin!(server.run(service, NonZeroUsize::MIN));
    // The worker is there after the first poll, and what it may take was counted by then.
    let mut cx = Context::from_waker(std::task::Waker::noop());
    assert!(run.as_mut().poll(&mut cx).is_pending());
    let hard = rlimit::Resource::NOFILE.get_hard().unwrap();
    rlimit::Resource::NOFILE.set(FEW, hard).unwrap();
    println!("listening on {address}");
    run.await.unwrap();
}
