//! `tombolo chat` as a user runs it.

use std::process::{Output, Stdio};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};

use crate::backends::recorded;
use crate::support::ollama::{Answer, ScriptedOllama};

fn start(host: &str, arguments: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_tombolo"))
        .arg("chat")
        .args(arguments)
        .env("OLLAMA_HOST", host)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}

/// Runs it to its end, with that text in the pipe.
async fn chat(host: &str, arguments: &[&str], piped: &str) -> (Option<i32>, String, String) {
    let mut child = start(host, arguments);
    let mut stdin = child.stdin.take().unwrap();
    // It may be gone before it has read anything.
    let _ = stdin.write_all(piped.as_bytes()).await;
    drop(stdin);
    let Output { status, stdout, stderr } = child.wait_with_output().await.unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

fn piece(text: &str) -> Value {
    json!({"model": "toy", "message": {"role": "assistant", "content": text}, "done": false})
}

#[tokio::test]
async fn an_answer_is_printed_and_the_request_is_capped() {
    let server = ScriptedOllama::start().await;
    let (_, lines) = recorded("ollama-chat-stream-text");
    server.push(Answer::lines(lines.as_array().unwrap()));
    // As Ollama's own tools take it: without a scheme.
    let host = server.url().replace("http://", "");
    let (code, out, err) = chat(&host, &["--model", "toy", "What", "is it?"], "a file\n").await;
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert_eq!(out, "It is 18 C and sunny in Paris.\n");
    let request = server.requests_to("/api/chat").pop().unwrap();
    assert_eq!(server.requests().len(), 1);
    assert_eq!(request.body["stream"], true);
    assert_eq!(request.body["model"], "toy");
    assert_eq!(request.body["options"]["num_predict"], 2048);
    assert_eq!(request.body.get("tools"), None);
    let asked = json!([{"role": "user", "content": "What is it?\n\na file\n"}]);
    assert_eq!(request.body["messages"], asked);
}

#[tokio::test]
async fn the_host_on_the_command_line_wins_and_a_pipe_alone_is_a_prompt() {
    let server = ScriptedOllama::start().await;
    let (code, out, _) =
        chat("http://127.0.0.1:1", &["--host", &server.url()], "from a pipe").await;
    // The default answer is not streamed: one line with everything.
    assert_eq!((code, out.as_str()), (Some(0), "ok\n"));
    let body = &server.requests_to("/api/chat")[0].body;
    assert_eq!(body["messages"][0]["content"], "from a pipe");
    assert_eq!(body["model"], "qwen2.5-coder:7b");
}

#[tokio::test]
async fn the_system_prompt_stands_first_and_json_is_one_object_with_the_whole_answer() {
    let server = ScriptedOllama::start().await;
    let (_, lines) = recorded("ollama-chat-stream-text");
    server.push(Answer::lines(lines.as_array().unwrap()));
    let (code, out, err) =
        chat(&server.url(), &["--json", "--system", "Be brief.", "hello"], "").await;
    assert_eq!((code, err.as_str(), out.lines().count()), (Some(0), "", 1));
    let object: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(object["message"]["content"], "It is 18 C and sunny in Paris.");
    assert_eq!(object["done"], true);
    let messages = &server.requests_to("/api/chat")[0].body["messages"];
    let asked = json!([
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "hello"},
    ]);
    assert_eq!(*messages, asked);

    // Half an answer is no object.
    server.push(Answer::lines(&[piece("It is ")]));
    let (code, out, _) = chat(&server.url(), &["--json", "hello"], "").await;
    assert_eq!((code, out.as_str()), (Some(1), ""));
}

#[tokio::test]
async fn a_stream_that_does_not_come_to_its_end_is_a_failure() {
    let half = format!("{}\n", piece("It is "));
    let cases = [
        Answer::lines(&[piece("It is "), json!({"error": "unexpected EOF"})]),
        Answer::lines(&[piece("It is ")]),
        Answer::Cut(half.clone()),
        Answer::Cut(format!("{half}{{\"mess")),
    ];
    for answer in cases {
        let server = ScriptedOllama::start().await;
        let shown = format!("{answer:?}");
        server.push(answer);
        let (code, out, err) = chat(&server.url(), &["hello"], "").await;
        assert_eq!(code, Some(1), "{shown}: {err}");
        assert_eq!(out, "It is \n", "{shown}: what was printed stays");
        assert_eq!(err.lines().count(), 1, "{shown}: {err}");
    }
}

#[tokio::test]
async fn every_failure_is_one_line_that_says_what_to_do() {
    let (code, _, err) = chat("127.0.0.1:1", &["hello"], "").await;
    assert_eq!(code, Some(1));
    assert_eq!(err, "tombolo: no Ollama at http://127.0.0.1:1; start it with: ollama serve\n");

    let server = ScriptedOllama::start().await;
    let (status, body) = recorded("ollama-chat-model-not-found");
    server.push(Answer::json(status, body));
    let (code, _, err) = chat(&server.url(), &["--model", "nope", "hello"], "").await;
    assert_eq!(code, Some(1));
    assert_eq!(err, "tombolo: the server has no model nope; it has: toy:latest\n");

    server.push(Answer::json(500, json!({"error": "out of memory"})));
    let (code, _, err) = chat(&server.url(), &["hello"], "").await;
    assert_eq!((code, err.as_str()), (Some(1), "tombolo: the server refused: out of memory\n"));

    let (code, _, err) = chat(&server.url(), &[], " \n").await;
    assert_eq!(code, Some(2), "{err}");
    let (code, _, _) = chat(&server.url(), &["--no-such-option"], "").await;
    assert_eq!(code, Some(2));
}

#[tokio::test]
async fn an_interrupt_closes_the_connection_and_keeps_what_was_printed() {
    let server = ScriptedOllama::start().await;
    server.push(Answer::hang());
    let mut child = start(&server.url(), &["hello"]);
    drop(child.stdin.take());
    server.wait_requests(1).await;
    interrupt(&child);
    server.wait_disconnected(1).await;
    assert_eq!(child.wait().await.unwrap().code(), Some(130));

    // And in the middle of an answer.
    server.push(Answer::Stalled(format!("{}\n", piece("It is "))));
    let mut child = start(&server.url(), &["hello"]);
    drop(child.stdin.take());
    let mut out = child.stdout.take().unwrap();
    let mut begun = [0; 6];
    out.read_exact(&mut begun).await.unwrap();
    assert_eq!(&begun, b"It is ");
    interrupt(&child);
    server.wait_disconnected(2).await;
    assert_eq!(child.wait().await.unwrap().code(), Some(130));
}

fn interrupt(child: &Child) {
    let id = i32::try_from(child.id().unwrap()).unwrap();
    let process = rustix::process::Pid::from_raw(id).unwrap();
    rustix::process::kill_process(process, rustix::process::Signal::INT).unwrap();
}

#[tokio::test]
async fn what_a_model_says_does_not_steer_the_terminal() {
    let server = ScriptedOllama::start().await;
    let lines = [piece("a\u{1b}"), piece("[2Jb\u{202e}c\n"), json!({"model": "toy", "done": true})];
    server.push(Answer::lines(&lines));
    let (code, out, err) = chat(&server.url(), &["hello"], "").await;
    assert_eq!((code, out.as_str(), err.as_str()), (Some(0), "a[2Jbc\n", ""));
}
