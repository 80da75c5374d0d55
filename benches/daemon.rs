//! The daemon's figures: memory, time to ready, and how long a question and an answer take inside it.
//!
//! Runs the real program against the simulated mesh on a real TCP port, with a recording proxy between them
//! and a model server that answers at once. Prints a table; judges nothing: `cargo bench --bench daemon`.
//! `QUESTIONS=20` makes it shorter.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_methods)]
#![allow(missing_docs)]

use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, sleep, timeout};
use tombolo::node::NodeNum;
use tombolo::sim::{SayTo, Sim, SimConfig, SimPeer};

/// What was seen where, and when.
#[derive(Clone, Default)]
struct Marks(Arc<Mutex<Vec<Mark>>>);

type Mark = (Place, Instant, Vec<u8>);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    /// The radio's bytes have been written to the daemon.
    ToDaemon,
    /// The daemon's bytes have arrived.
    FromDaemon,
    /// A request to the model is complete.
    Asked,
    /// The model's answer has been written.
    Answered,
}

impl Marks {
    fn put(&self, place: Place, bytes: &[u8]) {
        self.0.lock().unwrap().push((place, Instant::now(), bytes.to_vec()));
    }

    fn find(&self, place: Place, needle: &str) -> Option<Instant> {
        let holds = |bytes: &[u8]| bytes.windows(needle.len()).any(|w| w == needle.as_bytes());
        let marks = self.0.lock().unwrap();
        marks.iter().find(|(p, _, bytes)| *p == place && holds(bytes)).map(|(_, at, _)| *at)
    }

    fn forget(&self) {
        self.0.lock().unwrap().clear();
    }
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
    let marks = Marks::default();
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
    let radio = proxy(sim.clone(), marks.clone()).await;
    let model = model_server(marks.clone()).await;

    let folder = tempfile::tempdir().unwrap();
    let http = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let text = format!(
        "data_dir = \"{}\"\n[radio]\nport = \"tcp://{radio}\"\n[mesh]\nqueries_per_hour = 100000\n\
         allowed_contacts = [{}]\n[assistant.ollama]\nurl = \"http://{model}\"\nmodel = \"toy\"\n\
         [http]\nlisten = \"{http}\"\n",
        folder.path().join("data").display(),
        contacts.join(", ")
    );
    let path = folder.path().join("tombolo.toml");
    std::fs::write(&path, text).unwrap();

    let program = env!("CARGO_BIN_EXE_tombolo");
    let mut ready = Vec::new();
    for _ in 0..5 {
        let begun = Instant::now();
        let daemon = start(program, &path);
        while !healthy(http).await {
            sleep(Duration::from_micros(500)).await;
        }
        ready.push(begun.elapsed());
        drop(daemon);
    }
    let daemon = start(program, &path);
    while !healthy(http).await {
        sleep(Duration::from_millis(5)).await;
    }
    sim.wait_attached(true, Duration::from_secs(10)).await.unwrap();
    sleep(Duration::from_secs(2)).await;
    let at_start = rss_kib(daemon.0.id());

    let (mut to_model, mut to_air) = (Vec::new(), Vec::new());
    for n in 0..questions {
        marks.forget();
        let word = format!("q{n:05}");
        sim.say(&format!("P{}", n % 20), SayTo::Direct, &format!("!ai what of {word}?"));
        let answer = format!("answer {word}");
        let sent = timeout(Duration::from_secs(20), async {
            loop {
                if let Some(at) = marks.find(Place::FromDaemon, &answer) {
                    return at;
                }
                sleep(Duration::from_millis(1)).await;
            }
        });
        let sent = sent.await.unwrap_or_else(|_| panic!("question {n} was not answered"));
        let heard = marks.find(Place::ToDaemon, &format!("what of {word}")).unwrap();
        let asked = marks.find(Place::Asked, &word).unwrap();
        let answered = marks.find(Place::Answered, &answer).unwrap();
        to_model.push(asked - heard);
        to_air.push(sent.saturating_duration_since(answered));
        sleep(Duration::from_millis(2600)).await; // the gate must be idle again
    }
    // The rest of five hundred texts, none of which is answered. Not between the questions: a busy channel
    // makes the daemon wait.
    for n in questions..500 {
        sim.say("Stranger", SayTo::Direct, &format!("!ai noise {n}"));
        sleep(Duration::from_millis(100)).await;
    }
    let at_end = rss_kib(daemon.0.id());
    let size = std::fs::metadata(program).unwrap().len();

    println!("start to ready            {:>9.1} ms (median of 5)", median(&mut ready));
    println!(
        "frame to model request    {:>9.2} ms median {:>7.2} ms p99",
        median(&mut to_model),
        p99(&mut to_model)
    );
    println!(
        "model answer to first part{:>9.2} ms median {:>7.2} ms p99",
        median(&mut to_air),
        p99(&mut to_air)
    );
    println!("resident after start      {:>9.1} MiB", at_start / 1024.0);
    println!("resident after 500 texts  {:>9.1} MiB", at_end / 1024.0);
    println!("binary                    {:>9.1} MiB", size as f64 / 1_048_576.0);
}

fn start(program: &str, config: &std::path::Path) -> Daemon {
    let child = Command::new(program)
        .args(["run", "--config"])
        .arg(config)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    Daemon(child)
}

fn rss_kib(pid: u32) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

fn median(times: &mut [Duration]) -> f64 {
    times.sort();
    times[times.len() / 2].as_secs_f64() * 1000.0
}

fn p99(times: &mut [Duration]) -> f64 {
    times.sort();
    times[(times.len() * 99).div_ceil(100) - 1].as_secs_f64() * 1000.0
}

async fn healthy(address: std::net::SocketAddr) -> bool {
    let Ok(mut stream) = TcpStream::connect(address).await else { return false };
    let request = format!("GET /healthz HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    let mut answer = Vec::new();
    stream.write_all(request.as_bytes()).await.is_ok()
        && stream.read_to_end(&mut answer).await.is_ok()
        && answer.starts_with(b"HTTP/1.1 200")
}

/// Between the daemon and the simulated radio.
async fn proxy(sim: Sim, marks: Marks) -> std::net::SocketAddr {
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
                    if to_client.write_all(&buffer[..count]).await.is_err() {
                        return;
                    }
                    down.put(Place::ToDaemon, &buffer[..count]);
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
            });
        }
    });
    address
}

/// A model server as thin as can be: it measures the daemon, not itself.
async fn model_server(marks: Marks) -> std::net::SocketAddr {
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
    let mut buffer = Vec::new();
    loop {
        let (head, length) = loop {
            let text = String::from_utf8_lossy(&buffer).into_owned();
            if let Some(end) = text.find("\r\n\r\n") {
                let lower = text[..end].to_lowercase();
                let length = lower
                    .split("content-length: ")
                    .nth(1)
                    .and_then(|rest| rest.split("\r\n").next()?.trim().parse().ok())
                    .unwrap_or(0);
                if buffer.len() >= end + 4 + length {
                    break (text[..end].to_owned(), end + 4 + length);
                }
            }
            let mut chunk = [0; 65536];
            match stream.read(&mut chunk).await {
                Ok(count @ 1..) => buffer.extend_from_slice(&chunk[..count]),
                _ => return,
            }
        };
        let request: Vec<u8> = buffer.drain(..length).collect();
        let body = if head.contains("/api/chat") {
            marks.put(Place::Asked, &request);
            let text = String::from_utf8_lossy(&request).into_owned();
            let word = text.rsplit("what of ").next().and_then(|rest| rest.get(..6)).unwrap_or("");
            sleep(Duration::from_millis(20)).await;
            format!(
                "{{\"model\":\"toy\",\"message\":{{\"role\":\"assistant\",\"content\":\"answer {word}\"}},\"done\":true,\"done_reason\":\"stop\"}}"
            )
        } else if head.contains("/api/show") {
            "{\"capabilities\":[\"completion\",\"tools\"],\"model_info\":{\"general.architecture\":\"toy\",\"toy.context_length\":32768}}".to_owned()
        } else {
            "{\"models\":[{\"name\":\"toy:latest\"}]}".to_owned()
        };
        let answer = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        if stream.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
        if head.contains("/api/chat") {
            marks.put(Place::Answered, body.as_bytes());
        }
    }
}
