//! Where a gateway listens: TLS, unix sockets, and sockets that somebody else opened.

use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::process::{Command, Stdio};
use std::time::Duration;
use std::{fs, io};

use pretty_assertions::assert_eq;
use tokio::net::{TcpStream, UnixStream};

use super::house::{Caller, Gateway, Upstream, chat, eventually, note, request, upstream};
use crate::harness::{Program, signal};

#[tokio::test]
async fn tls_is_served_from_files_and_a_renewed_certificate_is_taken_up() {
    let answering = Upstream::answering().await;
    let directory = tempfile::TempDir::new().unwrap();
    let path = |name: &str| directory.path().join(name);
    let renew = || {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        fs::write(path("cert.pem"), made.cert.pem()).unwrap();
        fs::write(path("key.pem"), made.signing_key.serialize_pem()).unwrap();
    };
    renew();
    let settings = format!(
        "[serve]\ntls_cert = {:?}\ntls_key = {:?}\n{}",
        path("cert.pem"),
        path("key.pem"),
        upstream("a", answering.address, "")
    );
    let gateway = Gateway::start(&settings).await;
    let url = format!("https://localhost:{}", gateway.address.port());
    let client = path("client.toml");
    fs::write(
        &client,
        format!(
            "[[upstream]]\nname = \"gateway\"\nwire = \"openai-chat\"\nbase_url = \"{url}\"\n\
             tls_extra_roots = {:?}\n",
            path("cert.pem")
        ),
    )
    .unwrap();
    let call = async || {
        let call = Program::new(&["call", "--prompt", "hi", "--model", "m"])
            .set("retry.attempts=1")
            .args(&["--config", client.to_str().unwrap()]);
        tokio::task::spawn_blocking(|| call.run()).await.unwrap()
    };

    let first = call().await;
    renew();
    let untrusted = call().await;
    let told = gateway.reload().await;
    let renewed = call().await;
    let plain = gateway.connect().await;
    let mut plain = Caller::new(plain.socket);
    plain.send(&chat("", true)).await;
    let read = plain.read_to_end().await.unwrap_or_default();

    assert_eq!(first.stdout, "hi\n");
    untrusted.assert_code(8);
    assert!(told.contains("configuration reloaded"), "{told}");
    assert_eq!(renewed.stdout, "hi\n", "{renewed:?}");
    assert!(!read.contains("HTTP/1.1 200"), "{read:?}");
    assert_eq!(answering.asked(), 2);
}

#[tokio::test]
async fn a_unix_socket_is_served_beside_a_port_and_removed_at_the_end() {
    let answering = Upstream::answering().await;
    let directory = tempfile::TempDir::new().unwrap();
    let path = directory.path().join("gateway.sock");
    let on = format!("unix:{}", path.display());
    let settings = upstream("a", answering.address, "");
    let gateway = Gateway::start_as(&settings, |it| it.args(&["--listen", &on])).await;

    let mut caller = Caller::new(UnixStream::connect(&path).await.unwrap());
    caller.send(&chat("", true)).await;
    let by_file = caller.response().await;
    let by_port = gateway.response(&chat("", true)).await;
    drop(caller);
    gateway.signal("TERM");
    gateway.wait().await.assert_code(0);

    assert_eq!([by_file.status, by_port.status], [200, 200]);
    assert!(!path.exists());
}

#[tokio::test]
async fn a_service_manager_hands_over_a_socket_and_is_told_when_it_is_served() {
    let answering = Upstream::answering().await;
    let directory = tempfile::TempDir::new().unwrap();
    let notify = directory.path().join("notify");
    let manager = UnixDatagram::bind(&notify).unwrap();
    manager
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let config = directory.path().join("gateway.toml");
    // The address is that of the socket: the one in the file is not opened.
    let settings = upstream("a", answering.address, "") + "[serve]\nlisten = \"127.0.0.1:1\"\n";
    fs::write(&config, settings).unwrap();
    let hear = || -> io::Result<String> {
        let mut told = [0; 256];
        let len = manager.recv(&mut told)?;
        Ok(String::from_utf8_lossy(&told[..len]).into_owned())
    };
    // The third descriptor is the first that is handed over (sd_listen_fds(3)).
    let start = "LISTEN_PID=$$ LISTEN_FDS=1 exec \"$0\" \"$@\" 3<&0 0</dev/null";

    // Somebody calls before anybody serves.
    let mut early = Caller::new(TcpStream::connect(address).await.unwrap());
    early.send(&chat("", true)).await;
    let mut child = Command::new("sh")
        .args([
            "-c",
            start,
            env!("CARGO_BIN_EXE_lifesign"),
            "serve",
            "--config",
        ])
        .arg(&config)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("NOTIFY_SOCKET", &notify)
        .stdin(Stdio::from(OwnedFd::from(listener)))
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let ready = hear().unwrap();
    let response = early.response().await;
    signal(child.id(), "HUP");
    let reloading = hear().unwrap();
    let reloaded = hear().unwrap();
    signal(child.id(), "TERM");
    let stopping = hear().unwrap();
    let ended = tokio::task::spawn_blocking(move || child.wait())
        .await
        .unwrap();

    assert_eq!(ready, "READY=1\n");
    assert_eq!(response.status, 200);
    assert!(reloading.starts_with("RELOADING=1\n"), "{reloading}");
    assert_eq!(reloaded, "READY=1\n");
    assert_eq!(stopping, "STOPPING=1\n");
    assert_eq!(ended.unwrap().code(), Some(0));
    let refused = TcpStream::connect(address).await.unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
}

#[test]
fn a_socket_that_is_handed_over_needs_keys_like_any_other() {
    let listener = TcpListener::bind("0.0.0.0:0").unwrap();
    let start = "LISTEN_PID=$$ LISTEN_FDS=1 exec \"$0\" \"$@\" 3<&0 0</dev/null";

    let output = Command::new("sh")
        .args(["-c", start, env!("CARGO_BIN_EXE_lifesign"), "serve"])
        .args(["--upstream", "openai-chat=http://127.0.0.1:9"])
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .stdin(Stdio::from(OwnedFd::from(listener)))
        .output()
        .unwrap();

    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(told.contains("there is no [[key]]"), "{told}");
}

#[tokio::test]
async fn an_address_that_is_taken_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let serve = Program::new(&["serve", "--listen", &address])
        .args(&["--upstream", "openai-chat=http://127.0.0.1:9"]);

    let ran = tokio::task::spawn_blocking(|| serve.run()).await.unwrap();

    ran.assert_code(1)
        .assert_said(&format!("error: cannot listen on {address}: "));
}

#[tokio::test]
async fn the_flags_alone_make_a_gateway() {
    let answering = Upstream::answering().await;
    let serving = Program::new(&["serve", "--listen", "127.0.0.1:0"])
        .args(&[
            "--upstream",
            &format!("openai=http://{}", answering.address),
        ])
        .start();
    let address = note(&serving, "listening on ").await;

    let mut caller = Caller::new(TcpStream::connect(address).await.unwrap());
    caller.send(&chat("", true)).await;
    let streamed = caller.response().await;
    caller.send(&chat("", false)).await;
    let whole = caller.response().await;
    caller.send(&request("GET", "/livez", "", "")).await;
    let live = caller.response().await;

    assert_eq!(
        [streamed.status, whole.status, live.status],
        [200, 200, 200]
    );
    serving.signal("TERM");
    eventually("it ends", || serving.is_over()).await;
    serving.wait().assert_code(0);
}
