//! `tombolo chat`: one answer from the local model, without tools.
//!
//! Owns what is typed and what is printed. Shares nothing with the daemon: no history, no caller, no tool.

mod stream;

use std::io::Write;
use std::process::ExitCode;

use anyhow::{Result, bail};
use serde_json::{Value, json};

use self::stream::{Event, Lines};
use super::question::Question;
use super::{exit, server, terminal};
use crate::assistant::backends::{ASSISTANT_HTTP_TIMEOUT, ASSISTANT_MAX_TOKENS};
use crate::assistant::http::{HttpClient, MAX_BODY, redact, unreachable};

/// The window, in tokens: a piped file should fit.
const NUM_CTX: u32 = 8192;

/// Arguments of `tombolo chat`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  tombolo chat \"What is a tombolo?\"
  git diff | tombolo chat --system \"You review code.\" \"What could go wrong?\"
  tombolo chat --json hello | jq .eval_count

Exit codes: 0 answered, 1 failed, 2 wrong use, 130 stopped.")]
pub struct Args {
    /// Where Ollama is.
    #[arg(long, env = "OLLAMA_HOST", value_name = "URL", default_value = server::DEFAULT_HOST)]
    host: String,
    /// A model that it has.
    #[arg(long, value_name = "M", default_value = "qwen2.5-coder:7b")]
    model: String,
    /// What the model is told before the question.
    #[arg(long, value_name = "TEXT")]
    system: Option<String>,
    /// Print nothing but the server's last object, with the whole answer in it.
    #[arg(long)]
    json: bool,
    /// The question; a pipe on standard input is added to it.
    #[arg(value_name = "PROMPT")]
    prompt: Vec<String>,
}

/// Asks once and prints the answer as it comes.
pub fn run(args: Args) -> Result<ExitCode> {
    let question = Question::read(&args.prompt)?;
    if question.is_empty() {
        return Ok(exit::usage("nothing to ask; write: tombolo chat \"a question\""));
    }
    let (url, prompt) = (server::base_url(&args.host), question.text());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        // Listening first, so that no interrupt is lost. Leaving drops the connection, which stops the server.
        let interrupt = tokio::signal::ctrl_c();
        tokio::select! {
            answered = ask(&url, &args, &prompt) => answered.map(|()| ExitCode::SUCCESS),
            _ = interrupt => {
                if !args.json {
                    let _ = writeln!(std::io::stdout());
                }
                Ok(ExitCode::from(exit::STOPPED))
            }
        }
    })
}

async fn ask(url: &str, args: &Args, prompt: &str) -> Result<()> {
    let http = HttpClient::new(url);
    let model = &args.model;
    let system = args.system.iter().map(|text| json!({ "role": "system", "content": text }));
    let question = json!({ "role": "user", "content": prompt });
    let messages: Vec<Value> = system.chain([question]).collect();
    let body = json!({
        "model": model,
        "stream": true,
        "think": false,
        "options": { "num_predict": ASSISTANT_MAX_TOKENS, "num_ctx": NUM_CTX },
        "messages": messages,
    });
    let send = http.get()?.post(format!("{url}/api/chat")).json(&body).send();
    // The first byte may take as long as the model takes to load.
    let mut response = match tokio::time::timeout(ASSISTANT_HTTP_TIMEOUT, send).await {
        Ok(Ok(response)) => response,
        Ok(Err(error)) if error.is_connect() => {
            bail!(server::absent(url))
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
    let mut printed = Printed { json: args.json, ..Printed::default() };
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
                Event::Done { cut, object } => return printed.end(cut, object),
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
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    let words = body["error"].as_str().map(redact).unwrap_or_default();
    if status == 404 && words.contains("not found") {
        return anyhow::Error::msg(server::without_model(url, model).await);
    }
    if words.is_empty() {
        anyhow::anyhow!("{url} answered with status {status}; is it Ollama?")
    } else {
        anyhow::anyhow!("the server refused: {words}")
    }
}

/// What stands on standard output.
#[derive(Debug, Default)]
struct Printed {
    any: bool,
    open_line: bool,
    /// Nothing is printed before the end; it is kept here.
    json: bool,
    kept: String,
}

impl Printed {
    fn print(&mut self, text: &str) -> Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        self.any = true;
        if self.json {
            self.kept.push_str(text);
            return Ok(());
        }
        // A stray escape would steer the terminal; each is one character, so none is split between two pieces.
        let text = terminal::printable(text);
        terminal::print(&text)?;
        self.open_line = !text.ends_with('\n');
        Ok(())
    }

    fn close_line(&mut self) -> Result<()> {
        if self.open_line { terminal::print("\n") } else { Ok(()) }
    }

    fn end(mut self, cut: bool, mut object: Value) -> Result<()> {
        self.close_line()?;
        if !self.any {
            bail!("the model answered nothing");
        }
        if self.json {
            object["message"]["content"] = Value::String(self.kept);
            terminal::print(&format!("{}\n", terminal::exact(&object)))?;
        }
        if cut {
            terminal::complain("the answer was cut at its greatest length");
        }
        Ok(())
    }

    fn fail(mut self, why: &str) -> Result<()> {
        self.close_line()?;
        bail!("{why}")
    }
}
