//! Where a program's streams lead.
//!
//! Owns the redirections: only files of the workspace are opened, and the null device.

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;

use super::super::command::{Program, Redirection, Stream};
use super::super::path::{Workspace, shown};

/// What a program reads from and writes to.
pub struct Streams {
    /// 0
    pub stdin: OwnedFd,
    /// 1
    pub stdout: OwnedFd,
    /// 2
    pub stderr: OwnedFd,
}

impl Streams {
    /// In the order in which they are written, as a shell does.
    pub fn redirected(
        mut self,
        workspace: &Workspace,
        program: &Program,
    ) -> Result<Streams, String> {
        let broken = |e: io::Error| format!("its streams: {e}");
        for redirection in &program.redirections {
            match redirection {
                Redirection::Input(path) if path == "/dev/null" => {
                    self.stdin = null().map_err(broken)?;
                }
                Redirection::Input(path) => {
                    self.stdin = workspace.open_file(path).map_err(|e| e.to_string())?.into();
                }
                Redirection::Output { stream, path, append } => {
                    let file = if path == "/dev/null" {
                        null().map_err(broken)?
                    } else {
                        output(workspace, path, *append)?.into()
                    };
                    *self.stream(*stream) = file;
                }
                Redirection::Same(Stream::Output) => {
                    self.stdout = self.stderr.try_clone().map_err(broken)?;
                }
                Redirection::Same(Stream::Error) => {
                    self.stderr = self.stdout.try_clone().map_err(broken)?;
                }
            }
        }
        Ok(self)
    }

    fn stream(&mut self, stream: Stream) -> &mut OwnedFd {
        match stream {
            Stream::Output => &mut self.stdout,
            Stream::Error => &mut self.stderr,
        }
    }
}

fn output(workspace: &Workspace, path: &str, append: bool) -> Result<File, String> {
    let file = workspace.open_for_output(path, append).map_err(|e| e.to_string())?;
    if !append {
        file.set_len(0).map_err(|e| format!("{}: {e}", shown(path)))?;
    }
    Ok(file)
}

/// Reads as empty, and takes everything.
pub fn null() -> io::Result<OwnedFd> {
    Ok(fs::OpenOptions::new().read(true).write(true).open("/dev/null")?.into())
}
