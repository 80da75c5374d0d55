//! `tombolo chat`: one answer from the local model, without tools.
//!
//! Owns what is typed and what is printed. Shares nothing with the daemon: no history, no caller, no tool.

mod stream;

use std::io::{IsTerminal, Read, Write};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use serde_json::json;

use self::stream::{Event, Lines};
use crate::assistant::backends::{ASSISTANT_HTTP_TIMEOUT, ASSISTANT_MAX_TOKENS, ollama};
use crate::assistant::http::{HttpClient, MAX_BODY, redact, unreachable};

/// Exit code of an interrupt, as shells have it.
const INTERRUPTED: u8 = 130;
/// Exit code of a wrong use.
const USAGE: u8 = 2;
/// Bytes that are taken from a pipe.
const MAX_PIPE: u64 = 256 * 1024;
/// The window, in tokens: a piped file should fit.
const NUM_CTX: u32 = 8192;

/// Arguments of `tombolo chat`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Where Ollama is.
    #[arg(long, env = "OLLAMA_HOST", value_name = "URL", default_value = "http://localhost:11434")]
    host: String,
    /// A model that it has.
    #[arg(long, value_name = "M", default_value = "qwen2.5-coder:7b")]
    model: String,
    /// The question; a pipe on standard input is added to it.
    #[arg(value_name = "PROMPT")]
    prompt: Vec<String>,
}

/// Asks once and prints the answer as it comes.
pub fn run(args: Args) -> Result<ExitCode> {
    let mut prompt = args.prompt.join(" ");
    let stdin = std::io::stdin();
    if !stdin.is_terminal() {
        let piped = piped(stdin.lock())?;
        if !piped.trim().is_empty() {
            prompt = if prompt.is_empty() { piped } else { format!("{prompt}\n\n{piped}") };
        }
    }
    if prompt.trim().is_empty() {
        eprintln!("tombolo: nothing to ask; write: tombolo chat \"a question\"");
        return Ok(ExitCode::from(USAGE));
    }
    let url = base_url(&args.host);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        // Listening first, so that no interrupt is lost. Leaving drops the connection, which stops the server.
        let interrupt = tokio::signal::ctrl_c();
        tokio::select! {
            answered = ask(&url, &args.model, &prompt) => answered.map(|()| ExitCode::SUCCESS),
            _ = interrupt => {
                println!();
                Ok(ExitCode::from(INTERRUPTED))
            }
        }
    })
}

fn piped(input: impl Read) -> Result<String> {
    let mut bytes = Vec::new();
    input.take(MAX_PIPE + 1).read_to_end(&mut bytes).context("reading standard input")?;
    if u64::try_from(bytes.len())? > MAX_PIPE {
        bail!("standard input is larger than {} KiB", MAX_PIPE / 1024);
    }
    String::from_utf8(bytes).context("standard input is no UTF-8 text")
}

/// Takes what Ollama's own tools take: an address without scheme or port too, and the address to listen on.
fn base_url(host: &str) -> String {
    let host = host.trim().trim_end_matches('/');
    let (scheme, rest) = host.split_once("://").unwrap_or(("http", host));
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let authority = match authority {
        "" => "localhost".to_owned(),
        // One can listen on every address, but not connect to it.
        _ => match authority.strip_prefix("0.0.0.0") {
            Some(port) => format!("127.0.0.1{port}"),
            None => authority.to_owned(),
        },
    };
    let after_brackets = authority.rsplit_once(']').map_or(authority.as_str(), |(_, rest)| rest);
    let has_port = after_brackets.contains(':');
    // A scheme that was written has a port of its own.
    let port = if has_port || host.contains("://") { "" } else { ":11434" };
    format!("{scheme}://{authority}{port}{path}")
}

async fn ask(url: &str, model: &str, prompt: &str) -> Result<()> {
    let http = HttpClient::new(url);
    let body = json!({
        "model": model,
        "stream": true,
        "think": false,
        "options": { "num_predict": ASSISTANT_MAX_TOKENS, "num_ctx": NUM_CTX },
        "messages": [{ "role": "user", "content": prompt }],
    });
    let send = http.get()?.post(format!("{url}/api/chat")).json(&body).send();
    // The first byte may take as long as the model takes to load.
    let mut response = match tokio::time::timeout(ASSISTANT_HTTP_TIMEOUT, send).await {
        Ok(Ok(response)) => response,
        Ok(Err(error)) if error.is_connect() => {
            bail!("no Ollama at {url}; start it with: ollama serve")
        }
        Ok(Err(error)) => return Err(unreachable(error).into()),
        Err(_) => bail!("no answer within {} s", ASSISTANT_HTTP_TIMEOUT.as_secs()),
    };
    let status = response.status().as_u16();
    if status != 200 {
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(unreachable)? {
            body.extend_from_slice(&chunk);
            if body.len() > MAX_BODY {
                break;
            }
        }
        return Err(refused(url, model, status, &body).await);
    }

    let mut lines = Lines::default();
    let mut printed = Printed::default();
    loop {
        let chunk = tokio::time::timeout(ASSISTANT_HTTP_TIMEOUT, response.chunk()).await;
        let (events, over) = match chunk {
            Ok(Ok(Some(chunk))) => (lines.feed(&chunk), false),
            Ok(Ok(None)) => (std::mem::take(&mut lines).finish(), true),
            Ok(Err(_)) => return printed.fail("the connection broke; the answer is not whole"),
            Err(_) => return printed.fail("the server fell silent; the answer is not whole"),
        };
        for event in events {
            match event {
                Event::Text(text) => printed.print(&text)?,
                Event::Done { cut } => return printed.end(cut),
                Event::Failed(why) => return printed.fail(&redact(&why)),
            }
        }
        if over {
            return printed.fail("the answer broke off; it is not whole");
        }
    }
}

/// The error for an answer with another status than 200.
async fn refused(url: &str, model: &str, status: u16, body: &[u8]) -> anyhow::Error {
    let body: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    let words = body["error"].as_str().map(redact).unwrap_or_default();
    if status == 404 && words.contains("not found") {
        return match ollama::models(url).await {
            Ok(models) if !models.is_empty() => {
                anyhow::anyhow!("the server has no model {model}; it has: {}", models.join(", "))
            }
            _ => {
                anyhow::anyhow!("the server has no model {model}; get it with: ollama pull {model}")
            }
        };
    }
    if words.is_empty() {
        anyhow::anyhow!("{url} answered with status {status}; is it Ollama?")
    } else {
        anyhow::anyhow!("the server refused: {words}")
    }
}

/// What stands on the terminal.
#[derive(Debug, Default)]
struct Printed {
    any: bool,
    open_line: bool,
}

impl Printed {
    fn print(&mut self, text: &str) -> Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        let mut out = std::io::stdout().lock();
        out.write_all(text.as_bytes()).and_then(|()| out.flush()).context("printing")?;
        self.any = true;
        self.open_line = !text.ends_with('\n');
        Ok(())
    }

    fn close_line(&mut self) -> Result<()> {
        if self.open_line { self.print("\n") } else { Ok(()) }
    }

    fn end(mut self, cut: bool) -> Result<()> {
        self.close_line()?;
        if !self.any {
            bail!("the model answered nothing");
        }
        if cut {
            eprintln!("tombolo: the answer was cut at its greatest length");
        }
        Ok(())
    }

    fn fail(mut self, why: &str) -> Result<()> {
        self.close_line()?;
        bail!("{why}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_can_be_written_as_for_ollama() {
        for (written, meant) in [
            ("http://localhost:11434", "http://localhost:11434"),
            ("http://localhost:11434/", "http://localhost:11434"),
            ("192.0.2.1:1234", "http://192.0.2.1:1234"),
            ("192.0.2.1", "http://192.0.2.1:11434"),
            ("box.local", "http://box.local:11434"),
            ("0.0.0.0", "http://127.0.0.1:11434"),
            ("0.0.0.0:8080", "http://127.0.0.1:8080"),
            ("[::1]:8080", "http://[::1]:8080"),
            ("[::1]", "http://[::1]:11434"),
            ("https://models.example", "https://models.example"),
            ("", "http://localhost:11434"),
        ] {
            assert_eq!(base_url(written), meant, "{written}");
        }
    }

    #[test]
    fn a_pipe_is_taken_up_to_its_limit() {
        let limit = usize::try_from(MAX_PIPE).unwrap();
        assert_eq!(piped(&vec![b'a'; limit][..]).unwrap().len(), limit);
        assert!(piped(&vec![b'a'; limit + 1][..]).is_err());
        assert!(piped(&[0xFF, 0xFE][..]).is_err());
    }
}
