//! Resident agents by TLS: real agent processes, real certificates, real TCP over loopback, and everything that can be
//! wrong with them.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Arc,
    time::{Duration, SystemTime},
};

use drover_connect::{
    CertificateKind, ConnectError, Connection, DEFAULT_DAYS, PeerKind, PkiError, Target, TlsError,
    TlsOptions, connect, pki_init, pki_issue, pki_show,
};
use drover_proto::{PROTOCOL, v1, v1::agent_client::AgentClient};
use rcgen::{CertificateParams, ExtendedKeyUsagePurpose, Issuer, KeyPair, SanType};
use tempfile::TempDir;

/// `examples/agent.rs` of this crate, which cargo builds for its tests.
fn agent_program() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let profile = test.parent().and_then(Path::parent).unwrap();
    profile.join("examples").join("agent")
}

/// A resident agent, ended when dropped.
struct Agent {
    process: Child,
    dir: PathBuf,
    address: SocketAddr,
}

impl Agent {
    fn start(dir: &Path, tls: &Path) -> Self {
        let state = dir.join("agent");
        let mut process = serve(&state)
            .args(["--listen", "127.0.0.1:0", "--tls"])
            .arg(tls)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let log = std::fs::read_to_string(state.join("agent.log")).unwrap();
        assert_eq!(line, "ready\n", "{log}");
        let address = log.split_once("listens for controllers address=").unwrap().1;
        let address = address.split_whitespace().next().unwrap().parse().unwrap();
        Self { process, dir: state, address }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.dir.join("agent.log")).unwrap()
    }

    /// Waits until the agent has said this.
    async fn says(&self, text: &str) {
        let said = async {
            while !self.log().contains(text) {
                tokio::task::yield_now().await;
            }
        };
        let said = tokio::time::timeout(Duration::from_secs(60), said).await;
        assert!(said.is_ok(), "the agent does not say {text:?}:\n{}", self.log());
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.process);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        self.process.wait().unwrap();
    }
}

fn serve(state: &Path) -> Command {
    let mut command = Command::new(agent_program());
    command.args(["agent", "serve", "--dir"]).arg(state).stdin(Stdio::null());
    command
}

/// An authority, the certificate of the host `box`, and an agent that uses it.
struct World {
    dir: TempDir,
    agent: Agent,
}

fn pki(dir: &Path) -> PathBuf {
    let pki = dir.join("pki");
    pki_init(&pki, false).unwrap();
    pki_issue(&pki, &"box".parse().unwrap(), PeerKind::Agent, DEFAULT_DAYS, false).unwrap();
    pki
}

fn world() -> World {
    let dir = tempfile::tempdir().unwrap();
    let pki = pki(dir.path());
    let agent = Agent::start(dir.path(), &pki.join("agents/box"));
    World { agent, dir }
}

fn options(pki: &Path, name: &str, address: impl ToString) -> Target {
    Target::Tls(TlsOptions {
        name: name.parse().unwrap(),
        address: address.to_string(),
        pki: pki.to_owned(),
        connect_timeout: Duration::from_secs(30),
    })
}

async fn failure(target: Target) -> TlsError {
    match connect(&target).await {
        Err(ConnectError::Tls(error)) => error,
        other => panic!("{other:?}"),
    }
}

/// Every message names the address.
fn says(error: &TlsError, address: SocketAddr, text: &str) {
    let message = error.to_string();
    assert!(message.contains(&address.to_string()) && message.contains(text), "{message}");
}

#[tokio::test]
async fn expect_the_same_agent_by_tls_and_by_its_socket_when_certificates_are_good() {
    let world = world();
    let pki = world.dir.path().join("pki");
    let Connection { mut client, hello, peer, .. } =
        connect(&options(&pki, "box", world.agent.address)).await.unwrap();
    assert_eq!((hello.protocol, hello.host_name.unwrap().as_str()), (PROTOCOL, "box"));
    assert_eq!(peer, Some(world.agent.address.ip()));
    assert!(client.probe_clock(v1::ProbeClockRequest {}).await.unwrap().into_inner().monotonic_ns > 0);
    // Much goes through, in both directions.
    let run = drover_model::RunId(uuid::Uuid::from_u128(1));
    let request = v1::AcquireLeaseRequest {
        run: run.to_string(),
        holder: "x".into(),
        ttl_ms: 60_000,
        observe_interval_ms: 0,
    };
    let lease = client.acquire_lease(request).await.unwrap().into_inner();
    let lease = v1::LeaseRef { run: lease.run, epoch: lease.epoch };
    let contents = vec![7; 3_000_000];
    let blob = drover_model::Blob {
        hash: drover_model::BlobHash::of(&contents),
        size: contents.len().try_into().unwrap(),
    };
    let header = v1::BlobHeader { lease: Some(lease), blob: Some(blob.into()) };
    let mut parts = vec![v1::put_blob_chunk::Part::Header(header)];
    parts.extend(contents.chunks(200_000).map(|data| v1::put_blob_chunk::Part::Data(data.to_vec().into())));
    let parts: Vec<_> = parts.into_iter().map(|part| v1::PutBlobChunk { part: Some(part) }).collect();
    client.put_blob(tokio_stream::iter(parts)).await.unwrap();

    let local = drover_connect::LocalOptions {
        agent_dir: world.agent.dir.clone(),
        agent_command: vec!["false".into()],
        linger: Duration::ZERO,
    };
    let local = connect(&Target::Local(local)).await.unwrap();
    assert_eq!(local.hello.agent_id, hello.agent_id);
    // Another controller, with a certificate of its own.
    let (other, _) = pki_issue(&pki, &"second".parse().unwrap(), PeerKind::Controller, 30, false).unwrap();
    connect(&options(&other, "box", world.agent.address)).await.unwrap();
}

#[tokio::test]
async fn expect_the_reason_when_the_agent_is_not_the_one_that_was_asked_for() {
    let world = world();
    let (pki, address) = (world.dir.path().join("pki"), world.agent.address);
    let other_pki = world.dir.path().join("other");
    pki_init(&other_pki, false).unwrap();

    let error = failure(options(&pki, "box2", address)).await;
    assert!(matches!(&error, TlsError::OtherHost { presented, .. } if presented.contains("box.drover")));
    says(&error, address, "`box2`");
    let error = failure(options(&other_pki, "box", address)).await;
    assert!(matches!(&error, TlsError::OtherAuthority { .. }));
    says(&error, address, "other");
    // A name that DNS does not tell apart, but we do.
    let error = failure(options(&pki, "BOX", address)).await;
    assert!(matches!(&error, TlsError::OtherHost { presented, .. } if presented == "box"));
    let error = failure(options(&pki, "box-", address)).await;
    assert!(matches!(error, TlsError::Credentials(_)), "{error}");
    let error = failure(options(&world.dir.path().join("nowhere"), "box", address)).await;
    assert!(matches!(error, TlsError::Credentials(_)));
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert!(source.contains("nowhere") && source.contains("drover pki"), "{source}");
    std::fs::set_permissions(pki.join("key.pem"), PermissionsExt::from_mode(0o640)).unwrap();
    let error = failure(options(&pki, "box", address)).await;
    assert!(std::error::Error::source(&error).unwrap().to_string().contains("chmod 600"));
}

#[tokio::test]
async fn expect_the_reason_when_nothing_that_speaks_tls_is_there() {
    let dir = tempfile::tempdir().unwrap();
    let pki = pki(dir.path());
    let closed = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = closed.local_addr().unwrap();
    drop(closed);
    let error = failure(options(&pki, "box", address)).await;
    assert!(matches!(error, TlsError::Tcp { .. }));
    says(&error, address, "cannot connect");

    let stranger = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = stranger.local_addr().unwrap();
    let heard = std::thread::spawn(move || {
        let (mut stream, _) = stranger.accept().unwrap();
        stream.write_all(b"SSH-2.0-OpenSSH\r\n").unwrap();
        let mut heard = Vec::new();
        let _ = stream.read_to_end(&mut heard);
        heard
    });
    let error = failure(options(&pki, "box", address)).await;
    assert!(matches!(error, TlsError::Plaintext { .. }), "{error}");
    says(&error, address, "does not speak TLS");
    // It heard a client hello and nothing of HTTP/2.
    let heard = heard.join().unwrap();
    assert_eq!(heard.first(), Some(&22));
    assert!(!heard.windows(6).any(|bytes| bytes == b"PRI * "));

    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap();
    let Target::Tls(options) = options(&pki, "box", address) else { unreachable!() };
    let error =
        failure(Target::Tls(TlsOptions { connect_timeout: Duration::from_millis(50), ..options })).await;
    assert!(matches!(error, TlsError::Slow { .. }));
    says(&error, address, "0.05 s");
}

/// The port of a machine that goes down, or comes up, may be answered by something before it that has nobody to hand it to.
#[tokio::test]
async fn expect_another_try_to_make_sense_when_the_connection_breaks_before_a_word_of_the_agent() {
    let dir = tempfile::tempdir().unwrap();
    let pki = pki(dir.path());
    for reads in [false, true] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let closes = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            // What is not read makes a reset of the end; else it is an orderly one.
            if reads {
                let _ = stream.read(&mut [0; 4096]);
            } else {
                let _ = stream.peek(&mut [0]);
            }
        });
        let error = connect(&options(&pki, "box", address)).await.unwrap_err();
        closes.join().unwrap();
        assert!(matches!(error, ConnectError::Tls(TlsError::Broken { .. })), "{error:?}");
        assert!(!error.is_permanent(), "{error:?}");
    }
    // One that is somebody else stays that.
    let world = world();
    let error = connect(&options(&pki, "box", world.agent.address)).await.unwrap_err();
    assert!(error.is_permanent(), "{error:?}");
}

/// A certificate that the authority of `pki` signs, made by hand.
fn by_hand(
    pki: &Path,
    folder: &Path,
    name: &str,
    usage: ExtendedKeyUsagePurpose,
    days: std::ops::Range<i64>,
) {
    let read = |name: &str| std::fs::read_to_string(pki.join(name)).unwrap();
    let authority = KeyPair::from_pem(&read("ca-key.pem")).unwrap();
    let issuer = Issuer::from_ca_cert_pem(&read("ca.pem"), authority).unwrap();
    let mut params = CertificateParams::default();
    params.subject_alt_names = vec![SanType::DnsName(name.try_into().unwrap())];
    params.extended_key_usages = vec![usage];
    let day = |days: i64| {
        let by = Duration::from_secs(days.unsigned_abs() * 86_400);
        if days < 0 { SystemTime::now() - by } else { SystemTime::now() + by }
    };
    (params.not_before, params.not_after) = (day(days.start).into(), day(days.end).into());
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, &issuer).unwrap();
    std::fs::create_dir_all(folder).unwrap();
    for (name, text) in
        [("ca.pem", read("ca.pem")), ("cert.pem", certificate.pem()), ("key.pem", key.serialize_pem())]
    {
        std::fs::write(folder.join(name), text).unwrap();
        std::fs::set_permissions(folder.join(name), PermissionsExt::from_mode(0o600)).unwrap();
    }
}

#[tokio::test]
async fn expect_the_reason_when_the_agents_certificate_is_out_of_its_time() {
    let dir = tempfile::tempdir().unwrap();
    let pki = pki(dir.path());
    for (place, days) in [(0, -20..-10), (1, 10..20)] {
        let folder = dir.path().join(format!("by-hand-{place}"));
        by_hand(&pki, &folder, "box.drover", ExtendedKeyUsagePurpose::ServerAuth, days);
        let root = dir.path().join(place.to_string());
        let agent = Agent::start(&root, &folder);
        assert!(agent.log().contains("no controller will accept the certificate"), "{}", agent.log());
        let error = failure(options(&pki, "box", agent.address)).await;
        if place == 0 {
            assert!(matches!(error, TlsError::Expired { .. }), "{error}");
            says(&error, agent.address, "has expired");
        } else {
            assert!(matches!(error, TlsError::NotYet { .. }), "{error}");
            says(&error, agent.address, "not valid yet");
        }
    }
}

#[tokio::test]
async fn expect_nothing_for_a_controller_when_its_certificate_is_not_one() {
    let world = world();
    let (pki, address) = (world.dir.path().join("pki"), world.agent.address);
    let here = |name: &str| world.dir.path().join(name);
    // An agent's own certificate does not make a controller.
    let error = failure(options(&pki.join("agents/box"), "box", address)).await;
    assert!(matches!(error, TlsError::Unwelcome { .. }), "{error}");
    says(&error, address, "refuses this controller's certificate");
    by_hand(&pki, &here("late"), "c", ExtendedKeyUsagePurpose::ClientAuth, -20..-10);
    let error = failure(options(&here("late"), "box", address)).await;
    assert!(matches!(error, TlsError::Unwelcome { .. }), "{error}");
    // One of another authority, which trusts the agent's.
    pki_init(&here("other"), false).unwrap();
    std::fs::copy(pki.join("ca.pem"), here("other").join("ca.pem")).unwrap();
    let error = failure(options(&here("other"), "box", address)).await;
    assert!(matches!(error, TlsError::Unwelcome { .. }), "{error}");
    world.agent.says("its certificate is of another authority").await;
    world.agent.says("does not allow extended key usage for client authentication").await;
    world.agent.says("certificate expired").await;
    world.agent.says("peer=127.0.0.1").await;
    // The agent is as well as before.
    connect(&options(&pki, "box", address)).await.unwrap();
}

#[tokio::test]
async fn expect_nothing_for_a_client_without_certificate_and_one_without_tls() {
    use tokio_rustls::{TlsConnector, rustls};

    let world = world();
    let (pki, address) = (world.dir.path().join("pki"), world.agent.address);
    // Plain gRPC.
    let plain = AgentClient::connect(format!("http://{address}")).await;
    let answered = match plain {
        Ok(mut client) => client.probe_clock(v1::ProbeClockRequest {}).await.is_ok(),
        Err(_) => false,
    };
    assert!(!answered);
    world.agent.says("it does not speak TLS").await;

    let credentials = drover_agent::Credentials::load(&pki).unwrap();
    let builder = rustls::ClientConfig::builder_with_provider(drover_agent::provider());
    let mut config = builder
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_root_certificates(credentials.authority)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let name = rustls::pki_types::ServerName::try_from("box.drover").unwrap();
    let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
    let mut heard = Vec::new();
    let read = tokio::io::AsyncReadExt::read_to_end(&mut stream, &mut heard).await;
    assert!(read.is_err() && heard.is_empty(), "{heard:?}");
    world.agent.says("it has no certificate").await;
}

#[test]
fn expect_a_refusal_to_start_when_an_agent_would_be_open_or_cannot_prove_who_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let pki = pki(dir.path());
    let state = dir.path().join("agent");
    let refused = |arguments: &[&str]| {
        let output = serve(&state).args(arguments).output().unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, said) = refused(&["--listen", "127.0.0.1:0"]);
    assert!(code == 2 && said.contains("needs --tls"), "{said}");
    let agent = pki.join("agents/box");
    let path = |path: &Path| path.to_str().unwrap().to_owned();
    let (code, said) = refused(&["--tls", &path(&agent)]);
    assert!(code == 2 && said.contains("--listen"), "{said}");
    let listen = |tls: &Path| refused(&["--listen", "127.0.0.1:0", "--tls", &path(tls)]);
    let (code, said) = listen(&dir.path().join("nowhere"));
    assert!(code == 4 && said.contains("nowhere/ca.pem"), "{said}");
    // A controller's certificate does not make an agent.
    let (_, said) = listen(&pki);
    assert!(said.contains("names no host"), "{said}");
    by_hand(&pki, &dir.path().join("c"), "box.drover", ExtendedKeyUsagePurpose::ClientAuth, -1..10);
    let (_, said) = listen(&dir.path().join("c"));
    assert!(said.contains("not that of an agent"), "{said}");
    // The key of another certificate, one that others can read, and none.
    std::fs::copy(pki.join("key.pem"), agent.join("key.pem")).unwrap();
    let (_, said) = listen(&agent);
    assert!(said.contains("key and certificate"), "{said}");
    std::fs::set_permissions(agent.join("key.pem"), PermissionsExt::from_mode(0o604)).unwrap();
    let (_, said) = listen(&agent);
    assert!(said.contains("chmod 600"), "{said}");
    std::fs::set_permissions(agent.join("key.pem"), PermissionsExt::from_mode(0o600)).unwrap();
    std::fs::write(agent.join("key.pem"), "something else").unwrap();
    let (_, said) = listen(&agent);
    assert!(said.contains("no private key"), "{said}");
    assert!(!state.join("agent.sock").exists());
}

#[test]
fn expect_private_files_that_are_shown_and_not_replaced_when_certificates_are_made() {
    let dir = tempfile::tempdir().unwrap();
    let pki = dir.path().join("pki");
    assert!(matches!(pki_show(&pki), Err(PkiError::NoAuthority { .. })));
    let name: drover_model::Name = "lab1".parse().unwrap();
    let made = pki_init(&pki, false).unwrap();
    assert_eq!(made.len(), 2);
    let (folder, agent) = pki_issue(&pki, &name, PeerKind::Agent, 30, false).unwrap();
    pki_issue(&pki, &"ci".parse().unwrap(), PeerKind::Controller, DEFAULT_DAYS, false).unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    for path in [&pki, &folder, &pki.join("agents")] {
        assert_eq!(mode(path), 0o700, "{}", path.display());
    }
    for path in ["ca.pem", "ca-key.pem", "key.pem", "agents/lab1/key.pem", "agents/lab1/ca.pem"] {
        assert_eq!(mode(&pki.join(path)), 0o600, "{path}");
    }
    let shown = pki_show(&pki).unwrap();
    // A moment may have passed since they were made.
    let days = |info: &drover_connect::CertificateInfo| (info.days_left + 1) / 5 * 5;
    let kinds: Vec<_> = shown.iter().map(|info| (info.kind, info.name.as_str(), days(info))).collect();
    assert_eq!(
        kinds,
        [
            (CertificateKind::Authority, "Drover authority", 3650),
            (CertificateKind::Controller, "controller", 825),
            (CertificateKind::Agent, "lab1.drover", 30),
            (CertificateKind::Controller, "ci", 825),
        ]
    );
    assert!(shown.contains(&agent));
    assert_eq!(agent.fingerprint.len(), 32 * 3 - 1);
    let text = agent.to_string();
    assert!(text.contains("agent lab1.drover") && text.contains(&agent.expires_on), "{text}");

    for refused in
        [pki_init(&pki, false).unwrap_err(), pki_issue(&pki, &name, PeerKind::Agent, 30, false).unwrap_err()]
    {
        assert!(matches!(refused, PkiError::Exists { .. }) && refused.to_string().contains("--force"));
    }
    let (_, again) = pki_issue(&pki, &name, PeerKind::Agent, 30, true).unwrap();
    assert_ne!(again.fingerprint, agent.fingerprint);
    for days in [0, 3651] {
        let refused = pki_issue(&pki, &name, PeerKind::Agent, days, true).unwrap_err();
        assert!(matches!(refused, PkiError::Days { .. }), "{refused}");
    }
    let refused = pki_issue(&pki, &name, PeerKind::Agent, 3650, true).unwrap_err();
    assert!(matches!(refused, PkiError::OutlivesAuthority { left: 3649..=3650 }), "{refused}");
    std::fs::set_permissions(&pki, PermissionsExt::from_mode(0o755)).unwrap();
    assert!(matches!(pki_issue(&pki, &name, PeerKind::Agent, 30, true), Err(PkiError::Open { .. })));
}

#[test]
fn expect_openssl_to_agree_when_it_reads_the_certificates() {
    let dir = tempfile::tempdir().unwrap();
    let pki = pki(dir.path());
    let openssl = |arguments: &[&str]| {
        let output = Command::new("openssl").args(arguments).current_dir(&pki).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
    };
    for (purpose, certificate, good) in [
        ("sslserver", "agents/box/cert.pem", true),
        ("sslclient", "agents/box/cert.pem", false),
        ("sslclient", "cert.pem", true),
        ("sslserver", "cert.pem", false),
    ] {
        let said =
            openssl(&["verify", "-x509_strict", "-purpose", purpose, "-CAfile", "ca.pem", certificate]);
        assert_eq!(said.trim().ends_with(": OK"), good, "{purpose} {certificate}: {said}");
    }
    let said = openssl(&["x509", "-noout", "-fingerprint", "-sha256", "-in", "agents/box/cert.pem"]);
    let shown = pki_show(&pki).unwrap();
    assert!(said.contains(&shown[2].fingerprint), "{said}");
    let said = openssl(&["x509", "-noout", "-text", "-in", "ca.pem"]);
    assert!(said.contains("CA:TRUE, pathlen:0") && said.contains("Certificate Sign"), "{said}");
}
