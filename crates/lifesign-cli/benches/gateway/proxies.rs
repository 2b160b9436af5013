//! The proxies that are compared, each with one thread on one core.

use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use lifesign::clock;
use tempfile::TempDir;

use crate::caller::Way;
use crate::process::Process;
use crate::tls::{Certificate, NAME};
use crate::{Result, say};

/// What stands between callers and upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Direct,
    Hyper,
    Nginx,
    Haproxy,
    Lifesign,
}

impl Kind {
    pub(crate) const ALL: [Self; 5] = [
        Self::Direct,
        Self::Hyper,
        Self::Nginx,
        Self::Haproxy,
        Self::Lifesign,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Hyper => "hyper",
            Self::Nginx => "nginx",
            Self::Haproxy => "haproxy",
            Self::Lifesign => "lifesign",
        }
    }
}

/// A proxy that runs.
pub(crate) struct Proxy {
    pub(crate) way: Way,
    /// There is none where callers go to the upstream itself.
    pub(crate) process: Option<Process>,
    /// What it says on standard error.
    pub(crate) said: PathBuf,
    _directory: TempDir,
}

impl Proxy {
    /// Starts a proxy before `upstream`, over TLS on both sides if there is a certificate.
    ///
    /// `settings` are lines of TOML for the gateway, between its upstream and the rest.
    pub(crate) fn start(
        kind: Kind,
        upstream: SocketAddr,
        certificate: Option<&Certificate>,
        settings: &str,
    ) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let said = directory.path().join("said.log");
        let listen = free_address()?;
        let setup = Setup {
            listen,
            upstream,
            certificate,
            directory: directory.path(),
        };
        let process = match kind {
            Kind::Direct => None,
            Kind::Hyper => {
                let program = std::env::current_exe()?;
                let (listen, upstream) = (listen.to_string(), upstream.to_string());
                Some(Process::start(
                    &program,
                    &["bare", &listen, &upstream],
                    &said,
                )?)
            }
            Kind::Nginx => {
                let file = setup.write("nginx.conf", &setup.nginx())?;
                Some(Process::start(Path::new(NGINX), &["-c", &file], &said)?)
            }
            Kind::Haproxy => {
                let file = setup.write("haproxy.cfg", &setup.haproxy())?;
                Some(Process::start(
                    Path::new(HAPROXY),
                    &["-db", "-f", &file],
                    &said,
                )?)
            }
            Kind::Lifesign => {
                let file = setup.write("lifesign.toml", &setup.lifesign(settings))?;
                let program = Path::new(env!("CARGO_BIN_EXE_lifesign"));
                Some(Process::start(
                    program,
                    &["serve", "--config", &file, "--set", "telemetry.log=json"],
                    &said,
                )?)
            }
        };
        let address = process.as_ref().map_or(upstream, |_| listen);
        wait_for(kind, address, &said)?;
        Ok(Self {
            way: Way {
                address,
                tls: certificate.map(Certificate::connector).transpose()?,
            },
            process,
            said,
            _directory: directory,
        })
    }
}

struct Setup<'a> {
    listen: SocketAddr,
    upstream: SocketAddr,
    certificate: Option<&'a Certificate>,
    directory: &'a Path,
}

impl Setup<'_> {
    fn write(&self, name: &str, text: &str) -> Result<String> {
        let path = self.directory.join(name);
        fs::write(&path, text)?;
        Ok(path.to_string_lossy().into_owned())
    }

    fn nginx(&self) -> String {
        let directory = self.directory.display();
        let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
        let temporary = temporary.map(|name| format!("{name}_temp_path {directory}/{name};"));
        let (ssl, scheme) = match self.certificate {
            None => (String::new(), "http"),
            Some(Certificate { cert, key, .. }) => (
                format!(
                    "ssl_certificate {}; ssl_certificate_key {};",
                    cert.display(),
                    key.display()
                ),
                "https",
            ),
        };
        let listen_ssl = if ssl.is_empty() { "" } else { " ssl" };
        format!(
            "daemon off; master_process off; worker_processes 1; worker_rlimit_nofile 20000;\n\
             error_log {directory}/error.log; pid {directory}/nginx.pid;\n\
             events {{ worker_connections 19000; }}\n\
             http {{ access_log off; {}\n\
             keepalive_requests 1000000000; keepalive_timeout 600s;\n\
             upstream provider {{\n\
               server {}; keepalive 64; keepalive_requests 1000000000;\n\
             }}\n\
             server {{ listen {}{listen_ssl} backlog=4096; {ssl} tcp_nodelay on;\n\
             location / {{ proxy_pass {scheme}://provider; proxy_http_version 1.1;\n\
               proxy_set_header Connection \"\"; proxy_buffering off; proxy_read_timeout 600s;\n\
             }} }} }}\n",
            temporary.join(" "),
            self.upstream,
            self.listen,
        )
    }

    fn haproxy(&self) -> String {
        let (front, back) = match self.certificate {
            None => (String::new(), ""),
            Some(certificate) => (
                format!(" ssl crt {}", certificate.both.display()),
                " ssl verify none",
            ),
        };
        format!(
            "global\n  nbthread 1\n  maxconn 9500\n\
             defaults\n  mode http\n  option abortonclose\n  option http-no-delay\n  \
             http-reuse always\n  timeout connect 5s\n  timeout client 600s\n  \
             timeout server 600s\n\
             frontend callers\n  bind {} backlog 4096{front}\n  default_backend provider\n\
             backend provider\n  server provider {}{back}\n",
            self.listen, self.upstream,
        )
    }

    fn lifesign(&self, settings: &str) -> String {
        let (serve, upstream) = match self.certificate {
            None => (
                String::new(),
                format!("base_url = \"http://{}\"", self.upstream),
            ),
            Some(Certificate { cert, key, .. }) => (
                format!(
                    "tls_cert = \"{}\"\ntls_key = \"{}\"\n",
                    cert.display(),
                    key.display()
                ),
                format!(
                    "base_url = \"https://{NAME}:{}\"\ntls_extra_roots = \"{}\"",
                    self.upstream.port(),
                    cert.display()
                ),
            ),
        };
        format!(
            "[serve]\nlisten = [\"{}\"]\n{serve}\n\
             [[upstream]]\nname = \"provider\"\nwire = \"openai-chat\"\n{upstream}\n\
             concurrency = 20000\n{settings}\n",
            self.listen
        )
    }
}

/// Returns which of the proxies can be run, having tried to install what is missing.
pub(crate) fn available() -> Vec<Kind> {
    let is_there = |program: &str| Path::new(program).exists();
    if !is_there(NGINX) || !is_there(HAPROXY) {
        say("nginx or haproxy is missing; installing both from Debian's packages");
        let run = |arguments: &[&str]| {
            let status = Command::new("apt-get").args(arguments).status();
            status.is_ok_and(|status| status.success())
        };
        let install = [
            "install",
            "--yes",
            "--no-install-recommends",
            "nginx",
            "haproxy",
        ];
        if !(run(&install) || run(&["update"]) && run(&install)) {
            say("apt-get cannot install them; going on without");
        }
    }
    let can_run = |kind: &Kind| match kind {
        Kind::Nginx => is_there(NGINX),
        Kind::Haproxy => is_there(HAPROXY),
        Kind::Direct | Kind::Hyper | Kind::Lifesign => true,
    };
    Kind::ALL.into_iter().filter(can_run).collect()
}

fn free_address() -> io::Result<SocketAddr> {
    TcpListener::bind("127.0.0.1:0")?.local_addr()
}

fn wait_for(kind: Kind, address: SocketAddr, said: &Path) -> Result<()> {
    let until = clock::now() + START;
    while TcpStream::connect(address).is_err() {
        if clock::now() > until {
            let said = fs::read_to_string(said).unwrap_or_default();
            return Err(format!("{} does not listen: {said}", kind.name()).into());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

const NGINX: &str = "/usr/sbin/nginx";
const HAPROXY: &str = "/usr/sbin/haproxy";

/// How long a proxy may take to listen.
const START: Duration = Duration::from_secs(10);
