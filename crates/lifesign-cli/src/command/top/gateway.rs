//! The gateway that is watched, asked over HTTP: on a port, over TLS, or through a unix socket.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use http::{Method, Request, StatusCode, Uri};
use lifesign::transport::{ConnectProgress, Endpoint, ProxyEnv, Step, Transport, TransportConfig};
use lifesign_core::duration::human;
use lifesign_core::{SettingError, Value};
use lifesign_gateway::live::{Snapshot, Timeline};
use serde::de::DeserializeOwned;

/// A gateway, and the key that opens its admin API.
pub(super) struct Gateway {
    place: Place,
    /// What stands before every path, without a slash at its end.
    prefix: String,
    key: Option<HeaderValue>,
    transport: Transport,
}

enum Place {
    Network(Endpoint),
    #[cfg(unix)]
    Unix(PathBuf),
}

/// Why the gateway did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    /// Nothing answers.
    Gone(String),
    /// It answers, and refuses.
    Refused {
        status: StatusCode,
        /// The gateway's word for it.
        word: String,
        why: String,
    },
    /// What answers is no gateway, or one of another version.
    Strange(String),
}

struct Answer {
    status: StatusCode,
    body: Bytes,
}

impl Gateway {
    /// Returns the gateway at an address: `http://HOST:PORT`, `https://...` or `unix:/PATH`.
    pub(super) fn at(address: &str, key: Option<&str>) -> anyhow::Result<Self> {
        let (place, prefix) = place(address)?;
        let key = key.map(|key| HeaderValue::try_from(format!("Bearer {key}")));
        let mut key = key.transpose().map_err(|_| {
            SettingError::new("--admin-key-file", "holds what no HTTP header can carry")
        })?;
        if let Some(key) = &mut key {
            key.set_sensitive(true);
        }
        let mut config = TransportConfig::default();
        if place.is_here() {
            // A proxy has no way to this machine, and no business with the key.
            config.proxy = ProxyEnv::none();
        }
        Ok(Self {
            place,
            prefix,
            key,
            transport: Transport::new(config)?,
        })
    }

    /// Returns how it stands now, in the words in which it says so.
    pub(super) async fn live(&self) -> Result<Bytes, Trouble> {
        self.ask(Method::GET, "/lifesign/live").await
    }

    /// Returns how it stands now.
    pub(super) async fn snapshot(&self) -> Result<Snapshot, Trouble> {
        let told: Snapshot = read(&self.live().await?)?;
        if told.v != VERSION {
            return Err(Trouble::Strange(format!(
                "it tells how it stands in version {}, and this program knows {VERSION}",
                told.v
            )));
        }
        Ok(told)
    }

    /// Returns a call from its beginning on.
    pub(super) async fn timeline(&self, call: &str) -> Result<Timeline, Trouble> {
        read(
            &self
                .ask(Method::GET, &format!("/lifesign/calls/{call}"))
                .await?,
        )
    }

    /// Ends a call.
    pub(super) async fn cancel(&self, call: &str) -> Result<(), Trouble> {
        let path = format!("/lifesign/calls/{call}/cancel");
        self.ask(Method::POST, &path).await.map(drop)
    }

    /// Lets a hold go.
    pub(super) async fn release(&self, hold: &str) -> Result<(), Trouble> {
        let path = format!("/lifesign/holds/{hold}/release");
        self.ask(Method::POST, &path).await.map(drop)
    }

    async fn ask(&self, method: Method, path: &str) -> Result<Bytes, Trouble> {
        let answer = tokio::select! {
            answer = self.exchange(method, path) => answer?,
            () = tokio::time::sleep(PATIENCE) => {
                return Err(Trouble::Gone(format!("it does not answer within {}", human(PATIENCE))));
            }
        };
        if answer.status.is_success() {
            return Ok(answer.body);
        }
        // What is no JSON is not what a gateway refuses with.
        let said: serde_json::Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        let error = &said["error"];
        match (error["code"].as_str(), error["message"].as_str()) {
            (Some(word), Some(why)) => Err(Trouble::Refused {
                status: answer.status,
                word: word.to_owned(),
                why: why.to_owned(),
            }),
            _ => Err(Trouble::Strange(format!(
                "what answers there with {} is no lifesign gateway",
                answer.status
            ))),
        }
    }

    async fn exchange(&self, method: Method, path: &str) -> Result<Answer, Trouble> {
        let request = self.request(method, path)?;
        match &self.place {
            Place::Network(endpoint) => {
                let is_safe = request.method().is_safe();
                let first = self.over_network(endpoint, request.clone(), !is_safe).await;
                match first {
                    // A connection that was kept may have ended with the gateway that had it.
                    Err(_) if is_safe => self.over_network(endpoint, request, true).await,
                    answered => answered,
                }
            }
            #[cfg(unix)]
            Place::Unix(path) => over_socket(path, request).await,
        }
    }

    async fn over_network(
        &self,
        endpoint: &Endpoint,
        request: Request<Bytes>,
        fresh: bool,
    ) -> Result<Answer, Trouble> {
        let progress = ConnectProgress::new();
        let opened = self.transport.open(endpoint, fresh, &progress).await;
        let connection = opened.map_err(|error| Trouble::Gone(error.to_string()))?;
        let mut exchange = connection.send(request);
        let (mut status, mut body) = (StatusCode::OK, Vec::new());
        loop {
            let step = exchange.step().await;
            match step.map_err(|error| Trouble::Gone(error.to_string()))? {
                Step::Head(head) => status = head.status,
                Step::Chunk(bytes) => body.extend_from_slice(&bytes),
                Step::End => break,
                Step::Raw | Step::Sent | Step::Wrote => {}
            }
            if body.len() > MOST_BYTES {
                return Err(Trouble::Strange("its answer does not end".to_owned()));
            }
        }
        exchange.finish();
        Ok(Answer {
            status,
            body: body.into(),
        })
    }

    fn request(&self, method: Method, path: &str) -> Result<Request<Bytes>, Trouble> {
        let is_safe = method.is_safe();
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.prefix))
            .header(ACCEPT, "application/json");
        if !is_safe {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        if let Some(key) = &self.key {
            request = request.header(AUTHORIZATION, key);
        }
        let body = if is_safe { "" } else { "{}" };
        let built = request.body(Bytes::from_static(body.as_bytes()));
        built.map_err(|error| Trouble::Strange(error.to_string()))
    }
}

impl Place {
    /// Returns whether it is on this machine.
    fn is_here(&self) -> bool {
        match self {
            Self::Network(endpoint) => match endpoint.ip() {
                Some(ip) => ip.is_loopback(),
                None => endpoint.host == "localhost",
            },
            #[cfg(unix)]
            Self::Unix(_) => true,
        }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gone(why) | Self::Strange(why) => f.write_str(why),
            Self::Refused { status, why, .. } => {
                write!(f, "it refuses ({}): {why}", status.as_u16())
            }
        }
    }
}

#[cfg(unix)]
async fn over_socket(path: &std::path::Path, request: Request<Bytes>) -> Result<Answer, Trouble> {
    use http_body_util::{BodyExt as _, Full, Limited};
    use hyper::client::conn::http1;
    use hyper_util::rt::TokioIo;

    let gone = |error: &dyn fmt::Display| Trouble::Gone(error.to_string());
    let socket = tokio::net::UnixStream::connect(path).await;
    let socket = socket.map_err(|error| gone(&error))?;
    let (mut sender, driver) = http1::handshake(TokioIo::new(socket))
        .await
        .map_err(|error| gone(&error))?;
    // It ends with the exchange.
    tokio::spawn(driver);
    let mut request = request.map(Full::new);
    let host = HeaderValue::from_static("localhost");
    request.headers_mut().insert(http::header::HOST, host);
    let response = sender.send_request(request).await;
    let (head, body) = response.map_err(|error| gone(&error))?.into_parts();
    let body = Limited::new(body, MOST_BYTES).collect().await;
    Ok(Answer {
        status: head.status,
        body: body.map_err(|error| gone(&error))?.to_bytes(),
    })
}

fn read<T: DeserializeOwned>(body: &Bytes) -> Result<T, Trouble> {
    serde_json::from_slice(body).map_err(|error| {
        Trouble::Strange(format!(
            "what it says cannot be read by this program: {error}"
        ))
    })
}

fn place(address: &str) -> anyhow::Result<(Place, String)> {
    let refuse = |problem: String| {
        SettingError::new("URL", problem)
            .with_value(&Value::Text(address))
            .with_accepted("a URL such as http://127.0.0.1:4631, or unix:/PATH")
    };
    if let Some(path) = address.strip_prefix("unix:") {
        #[cfg(unix)]
        if !path.is_empty() {
            return Ok((Place::Unix(PathBuf::from(path)), String::new()));
        }
        return Err(refuse("names no socket".to_owned()).into());
    }
    let uri: Uri = address
        .parse()
        .map_err(|_| refuse("is no URL".to_owned()))?;
    let endpoint = Endpoint::parse(&uri, false);
    let endpoint = endpoint.map_err(|error| refuse(format!("cannot be used: {error}")))?;
    let prefix = uri.path().trim_end_matches('/').to_owned();
    Ok((Place::Network(endpoint), prefix))
}

/// How the gateway tells how it stands, as this program reads it.
const VERSION: u32 = 1;

/// The longest that an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(5);

/// More than what any gateway has to say of itself.
const MOST_BYTES: usize = 64 << 20;
