//! Running the programs of a command line, without a shell.
//!
//! Owns their streams and their end: whatever happens to the caller, nothing that was started is left.
//! All processes of a step are in one group, which is killed as a whole; one that left the group is
//! found by a mark in its environment. What may run was decided before.

mod marks;
mod streams;

use std::collections::VecDeque;
use std::io::{self, PipeReader, pipe};
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use marks::{MARK, kill_marked, marked};
use rustix::process::{Pid, Signal};
use streams::{Streams, null};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::Receiver;
use tokio::process::{Child, Command};

use super::command::{CommandLine, Program, Step, When};
use super::path::{Workspace, shown};

/// How often the processes are counted.
const COUNTED_EVERY: Duration = Duration::from_millis(200);
/// How long output is still taken when all is killed: a process takes a moment to die.
const LAST_OUTPUT: Duration = Duration::from_secs(1);
/// Where programs are looked for without a `PATH` of our own.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// What a command may take.
#[derive(Debug, Clone, Copy)]
pub(in crate::tools) struct Limits {
    /// For all steps.
    pub time: Duration,
    /// Bytes kept, of each stream; the rest is read and left out.
    pub output: usize,
    /// At one time.
    pub processes: usize,
}

/// How it went.
#[derive(Debug)]
pub(in crate::tools) struct Finished {
    /// Of the last step that ran; `None` if it was killed for a limit.
    pub status: Option<ExitStatus>,
    /// Why it was killed, if it was.
    pub stopped: Option<String>,
    /// What was written to 1.
    pub output: Captured,
    /// What was written to 2.
    pub errors: Captured,
}

/// The start and the end of a stream.
#[derive(Debug, Default)]
pub(in crate::tools) struct Captured {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    /// Bytes between them that were not kept.
    left_out: usize,
}

impl Captured {
    fn take(&mut self, bytes: &[u8], limit: usize) {
        let free = (limit / 2).saturating_sub(self.head.len());
        let (first, rest) = bytes.split_at(free.min(bytes.len()));
        self.head.extend_from_slice(first);
        self.tail.extend(rest);
        let over = self.tail.len().saturating_sub(limit - limit / 2);
        self.tail.drain(..over);
        self.left_out += over;
    }

    /// As text, with a mark where something was left out.
    pub(in crate::tools) fn text(&self) -> String {
        let mut bytes = self.head.clone();
        if self.left_out > 0 {
            bytes.extend(format!("\n[… {} bytes left out …]\n", self.left_out).as_bytes());
        }
        bytes.extend(&self.tail);
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// Where the programs are and how they see the world.
struct Surroundings<'a> {
    workspace: &'a Workspace,
    /// The command is the operator's own: its program may lie anywhere.
    anywhere: bool,
    path: String,
    home: Option<std::ffi::OsString>,
    mark: String,
}

/// Runs all steps. When the future is dropped, everything that it started is killed.
pub(super) async fn run(
    workspace: &Workspace,
    line: &CommandLine,
    limits: Limits,
) -> Result<Finished, String> {
    run_steps(workspace, false, line, limits).await
}

/// Runs a program that the operator wrote down, by its absolute path, in the workspace's folder. Nothing
/// of it comes from a model.
pub(in crate::tools) async fn run_fixed(
    workspace: &Workspace,
    program: &str,
    arguments: &[String],
    limits: Limits,
) -> Result<Finished, String> {
    let program = Program {
        name: program.to_owned(),
        arguments: arguments.to_vec(),
        redirections: Vec::new(),
    };
    let line = CommandLine { steps: vec![Step { when: When::Always, programs: vec![program] }] };
    run_steps(workspace, true, &line, limits).await
}

async fn run_steps(
    workspace: &Workspace,
    anywhere: bool,
    line: &CommandLine,
    limits: Limits,
) -> Result<Finished, String> {
    let random = getrandom::u64().map_err(|e| format!("no random number: {e}"))?;
    let around = Surroundings {
        workspace,
        anywhere,
        path: search_path(),
        home: std::env::var_os("HOME"),
        mark: format!("{random:016x}"),
    };
    // A name that is mistyped at the end should show before the beginning ran.
    for program in line.steps.iter().flat_map(|step| &step.programs) {
        if !program.name.contains('/') {
            around.find(&program.name)?;
        }
    }
    let (mut output, mut errors) = (Captured::default(), Captured::default());
    let (out_reader, out) = pipe().map_err(|e| format!("no pipe: {e}"))?;
    let (err_reader, err) = pipe().map_err(|e| format!("no pipe: {e}"))?;
    let (out_reader, err_reader) = (receiver(out_reader)?, receiver(err_reader)?);
    let mut ended = Err("not run".to_owned());
    let mut stopped = None;
    {
        let mut reading = std::pin::pin!(async {
            tokio::join!(
                read(out_reader, &mut output, limits.output),
                read(err_reader, &mut errors, limits.output)
            )
        });
        let mut is_read = false;
        {
            // Owns the writing ends and the processes: both are gone with it.
            let mut running = std::pin::pin!(steps(&around, line, out.into(), err.into()));
            let mut time = std::pin::pin!(tokio::time::sleep(limits.time));
            let mut count = tokio::time::interval(COUNTED_EVERY);
            count.reset();
            loop {
                tokio::select! {
                    done = &mut running => {
                        ended = done.map(Some);
                        break;
                    }
                    _ = &mut reading, if !is_read => is_read = true,
                    () = &mut time => {
                        stopped = Some(format!("the time of {} s is over", limits.time.as_secs()));
                        break;
                    }
                    _ = count.tick() => {
                        if marked(&around.mark).len() > limits.processes {
                            stopped = Some(format!("more than {} processes", limits.processes));
                            break;
                        }
                    }
                }
            }
        }
        if !is_read {
            // Whoever still has the pipe open can't be found; it is not waited for any longer.
            let _ = tokio::time::timeout(LAST_OUTPUT, reading).await;
        }
    }
    let status = if stopped.is_some() { None } else { ended? };
    Ok(Finished { status, stopped, output, errors })
}

fn receiver(reader: PipeReader) -> Result<Receiver, String> {
    Receiver::from_owned_fd(reader.into()).map_err(|e| format!("no pipe: {e}"))
}

async fn read(mut from: Receiver, into: &mut Captured, limit: usize) {
    let mut buffer = [0; 8192];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        into.take(buffer.get(..count).unwrap_or_default(), limit);
    }
}

async fn steps(
    around: &Surroundings<'_>,
    line: &CommandLine,
    out: OwnedFd,
    err: OwnedFd,
) -> Result<ExitStatus, String> {
    let mut status = ExitStatus::default();
    for step in &line.steps {
        let runs = match step.when {
            When::Always => true,
            When::Succeeded => status.success(),
            When::Failed => !status.success(),
        };
        if runs {
            let mut group = Group { children: Vec::new(), mark: &around.mark };
            group.start(around, step, &out, &err).await?;
            status = group.wait().await.map_err(|e| format!("waiting for it: {e}"))?;
        }
    }
    Ok(status)
}

/// The processes of a step. All are killed when it is dropped, with all that they started.
struct Group<'a> {
    /// The first leads the group, which bears its number.
    children: Vec<Child>,
    mark: &'a str,
}

impl Group<'_> {
    async fn start(
        &mut self,
        around: &Surroundings<'_>,
        step: &Step,
        out: &OwnedFd,
        err: &OwnedFd,
    ) -> Result<(), String> {
        let broken = |e: io::Error| format!("its streams: {e}");
        let mut stdin = null().map_err(broken)?;
        for (index, program) in step.programs.iter().enumerate() {
            let mut next_stdin = None;
            let stdout = if index + 1 < step.programs.len() {
                let (reader, writer) = pipe().map_err(broken)?;
                next_stdin = Some(OwnedFd::from(reader));
                OwnedFd::from(writer)
            } else {
                out.try_clone().map_err(broken)?
            };
            let stderr = err.try_clone().map_err(broken)?;
            let streams = Streams { stdin, stdout, stderr };
            let streams = streams.redirected(around.workspace, program)?;
            let leader = self.children.first().and_then(Child::id).unwrap_or(0);
            let mut command = Command::new(around.find(&program.name)?);
            command
                .args(&program.arguments)
                .current_dir(around.workspace.root())
                .env_clear()
                .env("PATH", &around.path)
                .env("LANG", "C.UTF-8")
                .env(MARK, &around.mark)
                .stdin(streams.stdin)
                .stdout(streams.stdout)
                .stderr(streams.stderr)
                .process_group(leader.try_into().unwrap_or(0))
                .kill_on_drop(true);
            if let Some(home) = &around.home {
                command.env("HOME", home);
            }
            let child =
                unprivileged(&mut command).map_err(|e| format!("{}: {e}", shown(&program.name)))?;
            self.children.push(child);
            stdin = match next_stdin {
                Some(reader) => reader,
                None => break,
            };
        }
        Ok(())
    }

    /// Until all have ended; the status of the last one. The leader is waited for at the end: as long
    /// as it is, nobody else can get the group's number.
    async fn wait(&mut self) -> io::Result<ExitStatus> {
        let mut last = None;
        for child in self.children.iter_mut().rev() {
            let status = child.wait().await?;
            last.get_or_insert(status);
        }
        Ok(last.unwrap_or_default())
    }
}

/// Starts it so that neither it nor what it starts can become someone else, by `sudo` or any other
/// set-user-id program. That holds for a thread and what it starts, so one is made and given up.
fn unprivileged(command: &mut Command) -> io::Result<Child> {
    let runtime = tokio::runtime::Handle::current();
    std::thread::scope(|scope| {
        let start = || {
            let _inside = runtime.enter();
            rustix::thread::set_no_new_privs(true)?;
            command.spawn()
        };
        let thread = std::thread::Builder::new().spawn_scoped(scope, start)?;
        thread.join().unwrap_or_else(|_| Err(io::Error::other("it could not be started")))
    })
}

impl Drop for Group<'_> {
    fn drop(&mut self) {
        // `id` is there until the child was waited for, so the number is still the group's.
        let leader = self.children.first().and_then(Child::id);
        if let Some(leader) = leader.and_then(|id| id.try_into().ok()).and_then(Pid::from_raw) {
            let _ = rustix::process::kill_process_group(leader, Signal::KILL);
        }
        kill_marked(self.mark);
    }
}

/// Our own `PATH`, without entries that depend on the current folder.
fn search_path() -> String {
    let path = std::env::var("PATH").unwrap_or_default();
    let path: Vec<&str> = path.split(':').filter(|entry| entry.starts_with('/')).collect();
    if path.is_empty() { DEFAULT_PATH.to_owned() } else { path.join(":") }
}

impl Surroundings<'_> {
    /// The program's file. One with a `/` in its name must be in the workspace, if the command is a model's.
    fn find(&self, name: &str) -> Result<PathBuf, String> {
        if self.anywhere && name.starts_with('/') {
            return Ok(PathBuf::from(name));
        }
        if name.contains('/') {
            self.workspace.open_file(name).map_err(|e| e.to_string())?;
            let relative = self.workspace.relative(name).map_err(|e| e.to_string())?;
            return Ok(self.workspace.root().join(relative));
        }
        self.path
            .split(':')
            .map(|folder| Path::new(folder).join(name))
            .find(|file| {
                file.is_file() && rustix::fs::access(file, rustix::fs::Access::EXEC_OK).is_ok()
            })
            .ok_or_else(|| format!("there is no program {}", shown(name)))
    }
}

/// `exit code: 1`, or the signal that ended it.
pub(in crate::tools) fn status_words(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code: {code}"),
        (None, Some(signal)) => format!("ended by signal {signal}"),
        (None, None) => "ended in an unknown way".to_owned(),
    }
}

#[cfg(test)]
mod tests;
