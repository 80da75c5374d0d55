//! The daemon's figures: memory, time to ready, and how long a question and an answer take inside it.
//!
//! Runs the real program against the simulated mesh on a real TCP port, with a recording proxy between them
//! and a model server that answers 20 ms later. Prints a table and judges nothing: `cargo bench --bench daemon`.
//! `QUESTIONS=20` makes it shorter; on a machine that does other things too, the medians are what to look at.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_methods)]
#![allow(missing_docs)]

use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};
use tombolo::node::NodeNum;
use tombolo::sim::{SayTo, Sim, SimConfig, SimPeer};

/// Texts that the daemon hears in all, as the aim for its memory says.
const TEXTS: usize = 500;
/// Starts, for the time to ready.
const STARTS: usize = 9;
/// Longer than the outbox leaves between two texts: the next answer may leave at once.
const GATE: Duration = Duration::from_millis(2_600);
/// How long the model thinks.
const THINKING: Duration = Duration::from_millis(20);

/// What passed where.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    /// The radio's bytes are about to be written to the daemon.
    ToDaemon,
    /// The daemon's bytes have arrived at the radio.
    FromDaemon,
    /// A request to the model is complete, on a connection of its own.
    AskedAnew,
    /// A request to the model is complete, on a connection that had one before.
    AskedAgain,
    /// The model's answer is about to be written.
    Answered,
}

/// What was seen where, and when.
#[derive(Clone, Default)]
struct Marks(Arc<(Mutex<Vec<Mark>>, Notify)>);

type Mark = (Place, Instant, Vec<u8>);

impl Marks {
    fn put(&self, place: Place, bytes: &[u8]) {
        self.0.0.lock().unwrap().push((place, Instant::now(), bytes.to_vec()));
        self.0.1.notify_one();
    }

    fn find(&self, place: Place, needle: &str) -> Option<Instant> {
        let holds = |bytes: &[u8]| bytes.windows(needle.len()).any(|w| w == needle.as_bytes());
        let marks = self.0.0.lock().unwrap();
        marks.iter().find(|(p, _, bytes)| *p == place && holds(bytes)).map(|(_, at, _)| *at)
    }

    async fn wait(&self, place: Place, needle: &str) -> Instant {
        let seen = timeout(Duration::from_secs(60), async {
            loop {
                match self.find(place, needle) {
                    Some(at) => return at,
                    None => self.0.1.notified().await,
                }
            }
        });
        seen.await.unwrap_or_else(|_| panic!("{needle:?} never came to {place:?}"))
    }

    fn forget(&self) {
        self.0.0.lock().unwrap().clear();
    }
}

/// What one question took.
struct Times {
    /// From the radio's frame to the model's request, and whether that came on a new connection.
    to_model: (Duration, bool),
    to_air: Duration,
}

/// Everything around the daemon.
struct Bench {
    sim: Sim,
    marks: Marks,
    http: SocketAddr,
    questions: usize,
}

struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn main() {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(run());
}

async fn run() {
    let questions: usize =
        std::env::var("QUESTIONS").ok().and_then(|q| q.parse().ok()).unwrap_or(100);
    let mut config = SimConfig::default();
    config.lora.region = 1; // US: no duty cycle
    config.lora.preset = 8; // SHORT_TURBO
    config.poll = Duration::from_millis(1);
    config.peers = (0..20)
        .map(|n| SimPeer::new(&format!("P{n}"), NodeNum(0x1000_0000 + n)))
        .chain([SimPeer::new("Stranger", NodeNum(0x0bad_cafe))])
        .collect();
    let contacts: Vec<String> = config
        .peers
        .iter()
        .filter(|p| p.name != "Stranger")
        .map(|p| format!("{{ id = \"{}\", key = \"{}\" }}", p.num, p.key.unwrap()))
        .collect();
    let sim = Sim::start(config);
    let marks = Marks::default();
    let radio = proxy(sim.clone(), marks.clone()).await;
    let model = model_server(marks.clone()).await;
    let http = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut bench = Bench { sim, marks, http, questions: 0 };

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tombolo.toml");
    let text = format!(
        "data_dir = \"{}\"\n[radio]\nport = \"tcp://{radio}\"\n[mesh]\nqueries_per_hour = 100000\n\
         allowed_contacts = [{}]\n[assistant.ollama]\nurl = \"http://{model}\"\nmodel = \"toy\"\n\
         [http]\nlisten = \"{http}\"\n",
        folder.path().join("data").display(),
        contacts.join(", ")
    );
    std::fs::write(&path, text).unwrap();

    let (mut ready, mut linked, mut first) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..STARTS {
        let begun = Instant::now();
        let daemon = start(&path);
        ready.push(bench.health("\"status\"").await - begun);
        linked.push(bench.health("\"connected\":true").await - begun);
        first.push(bench.ask().await.to_model.0);
        sleep(GATE).await;
        drop(daemon);
    }

    let daemon = start(&path);
    bench.health("\"connected\":true").await;
    sleep(Duration::from_secs(2)).await;
    let at_start = resident(&daemon);
    let (mut kept, mut anew, mut to_air) = (Vec::new(), Vec::new(), Vec::new());
    let mut noise = 0;
    for n in 1..=questions {
        let times = bench.ask().await;
        match times.to_model {
            _ if n == 1 => first.push(times.to_model.0),
            (took, true) => anew.push(took),
            (took, false) => kept.push(took),
        }
        to_air.push(times.to_air);
        sleep(GATE / 2).await;
        while noise < TEXTS.saturating_sub(questions) * n / questions {
            bench.noise(noise);
            noise += 1;
        }
        sleep(GATE / 2).await;
    }
    let at_end = resident(&daemon);
    let size = std::fs::metadata(env!("CARGO_BIN_EXE_tombolo")).unwrap().len();

    let mut hops = hops().await;

    println!("milliseconds                         median      p99      max   of");
    row("start to ready", &mut ready);
    row("start to link up", &mut linked);
    row("frame to model request", &mut kept);
    row("  on a new connection", &mut anew);
    row("  first question after a start", &mut first);
    row("model answer to first part", &mut to_air);
    row("(two hops without a daemon)", &mut hops);
    println!("MiB");
    println!("resident after start             {at_start:>10.1}");
    println!("resident after {TEXTS} texts         {at_end:>10.1}");
    println!("binary                           {:>10.1}", size as f64 / 1_048_576.0);
}

impl Bench {
    /// One peer asks one thing; returns when the answer is on its way to the radio.
    async fn ask(&mut self) -> Times {
        self.marks.forget();
        let word = format!("q{:05}", self.questions);
        let peer = format!("P{}", self.questions % 20);
        self.questions += 1;
        self.sim.say(&peer, SayTo::Direct, &format!("!ai what of {word}?"));
        let answer = format!("answer {word}");
        let sent = self.marks.wait(Place::FromDaemon, &answer).await;
        let heard = self.marks.find(Place::ToDaemon, &format!("what of {word}")).unwrap();
        let question = format!("what of {word}");
        let again = self.marks.find(Place::AskedAgain, &question);
        let asked = again.or_else(|| self.marks.find(Place::AskedAnew, &question)).unwrap();
        let answered = self.marks.find(Place::Answered, &answer).unwrap();
        Times { to_model: (asked - heard, again.is_none()), to_air: sent - answered }
    }

    /// What else is said on a mesh: by strangers and friends, to all and to us.
    fn noise(&self, n: usize) {
        match n % 4 {
            0 => self.sim.say("Stranger", SayTo::Direct, &format!("!ai let me in {n}")),
            1 => self.sim.say(&format!("P{}", n % 20), SayTo::Direct, &format!("thanks {n}")),
            _ => self.sim.say(&format!("P{}", n % 20), SayTo::Channel(0), &format!("hello {n}")),
        };
    }

    /// The time at which `/healthz` says so.
    async fn health(&self, wanted: &str) -> Instant {
        let asked = timeout(Duration::from_secs(30), async {
            loop {
                if self.healthz().await.is_some_and(|answer| answer.contains(wanted)) {
                    return Instant::now();
                }
                sleep(Duration::from_millis(1)).await;
            }
        });
        asked.await.unwrap_or_else(|_| panic!("/healthz never says {wanted}"))
    }

    async fn healthz(&self) -> Option<String> {
        let address = self.http;
        let mut stream = TcpStream::connect(address).await.ok()?;
        let request =
            format!("GET /healthz HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.ok()?;
        answer.starts_with("HTTP/1.1 200").then_some(answer)
    }
}

fn start(config: &Path) -> Daemon {
    let child = Command::new(env!("CARGO_BIN_EXE_tombolo"))
        .args(["run", "--config"])
        .arg(config)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    Daemon(child)
}

/// MiB.
fn resident(daemon: &Daemon) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", daemon.0.id())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() / 1024.0
}

fn row(what: &str, times: &mut [Duration]) {
    times.sort();
    let Some(last) = times.len().checked_sub(1) else { return };
    let [median, p99] = [50, 99].map(|p| ((last + 1) * p).div_ceil(100) - 1);
    let [median, p99, max] = [median, p99, last].map(|i| times[i].as_secs_f64() * 1000.0);
    println!("{what:<33}{median:>10.2}{p99:>9.2}{max:>9.2}{:>5}", last + 1);
}

/// What this machine takes to wake another thread over TCP and to be woken by it: a part of both ways through the
/// daemon, and no fault of its.
async fn hops() -> Vec<Duration> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let echo = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.set_nodelay(true).unwrap();
        let mut bytes = [0; 100];
        while stream.read_exact(&mut bytes).is_ok() && stream.write_all(&bytes).is_ok() {}
    });
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let mut times = Vec::new();
    for _ in 0..100 {
        sleep(THINKING).await;
        let begun = Instant::now();
        let mut bytes = [0; 100];
        stream.write_all(&bytes).await.unwrap();
        stream.read_exact(&mut bytes).await.unwrap();
        times.push(begun.elapsed());
    }
    drop(stream);
    echo.join().unwrap();
    times
}

/// Between the daemon and the simulated radio.
async fn proxy(sim: Sim, marks: Marks) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            client.set_nodelay(true).unwrap();
            let (mut from_client, mut to_client) = client.into_split();
            let (mut from_radio, mut to_radio) = tokio::io::split(sim.connect());
            let (down, up) = (marks.clone(), marks.clone());
            tokio::spawn(async move {
                let mut buffer = vec![0; 65536];
                while let Ok(count @ 1..) = from_radio.read(&mut buffer).await {
                    down.put(Place::ToDaemon, &buffer[..count]);
                    if to_client.write_all(&buffer[..count]).await.is_err() {
                        return;
                    }
                }
            });
            tokio::spawn(async move {
                let mut buffer = vec![0; 65536];
                while let Ok(count @ 1..) = from_client.read(&mut buffer).await {
                    up.put(Place::FromDaemon, &buffer[..count]);
                    if to_radio.write_all(&buffer[..count]).await.is_err() {
                        return;
                    }
                }
                // The radio must see that its client is gone.
                let _ = to_radio.shutdown().await;
            });
        }
    });
    address
}

/// A model server as thin as can be: it measures the daemon, not itself. It closes each connection after its
/// second question, so that half of the questions need a new one.
async fn model_server(marks: Marks) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            stream.set_nodelay(true).unwrap();
            tokio::spawn(serve(stream, marks.clone()));
        }
    });
    address
}

async fn serve(mut stream: TcpStream, marks: Marks) {
    let (mut buffer, mut requests, mut asked) = (Vec::new(), 0, 0);
    while let Some((head, request)) = request(&mut stream, &mut buffer).await {
        let is_question = head.contains("/api/chat");
        let body = if is_question {
            let place = if requests == 0 { Place::AskedAnew } else { Place::AskedAgain };
            marks.put(place, &request);
            asked += 1;
            let text = String::from_utf8_lossy(&request).into_owned();
            let word = text.rsplit("what of ").next().and_then(|rest| rest.get(..6)).unwrap_or("");
            sleep(THINKING).await;
            format!(
                "{{\"model\":\"toy\",\"message\":{{\"role\":\"assistant\",\"content\":\"answer {word}\"}},\"done\":true,\"done_reason\":\"stop\"}}"
            )
        } else if head.contains("/api/show") {
            "{\"capabilities\":[\"completion\",\"tools\"],\"model_info\":{\"general.architecture\":\"toy\",\"toy.context_length\":32768}}".to_owned()
        } else {
            "{\"models\":[{\"name\":\"toy:latest\"}]}".to_owned()
        };
        requests += 1;
        let last = asked == 2;
        let answer = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n{}\r\n{body}",
            body.len(),
            if last { "Connection: close\r\n" } else { "" },
        );
        if is_question {
            marks.put(Place::Answered, body.as_bytes());
        }
        if stream.write_all(answer.as_bytes()).await.is_err() || last {
            return;
        }
    }
}

/// The next whole request: its head, and all of it.
async fn request(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<(String, Vec<u8>)> {
    loop {
        let text = String::from_utf8_lossy(buffer).into_owned();
        if let Some(end) = text.find("\r\n\r\n") {
            let head = text[..end].to_owned();
            let length = head.to_lowercase().split("content-length: ").nth(1).map_or(0, |rest| {
                rest.split("\r\n").next().and_then(|n| n.trim().parse().ok()).unwrap_or(0)
            });
            if buffer.len() >= end + 4 + length {
                return Some((head, buffer.drain(..end + 4 + length).collect()));
            }
        }
        let mut chunk = [0; 65536];
        match stream.read(&mut chunk).await {
            Ok(count @ 1..) => buffer.extend_from_slice(&chunk[..count]),
            _ => return None,
        }
    }
}
