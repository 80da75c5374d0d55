//! Which programs may run.
//!
//! Owns the lists. They are of names, compared with what was parsed and never with text. They keep an
//! honest model from what it should not use; they are no prison for a program that was let in: that is
//! what the operator's confirmation is for.

use std::path::Path;

use super::command::{CommandLine, Program};

/// The programs that a command may name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShellPolicy {
    /// Only these, as they are written in the command; `None` for all that are not denied.
    pub allow: Option<Vec<String>>,
    /// None of these, wherever they lie.
    pub deny: Vec<String>,
}

/// Those that change who one is, that are a shell (and would do what the parser refuses), that leave
/// the process group, or that stop the machine.
const DENIED: [&str; 39] = [
    "sudo",
    "sudoedit",
    "su",
    "doas",
    "pkexec",
    "run0",
    "runuser",
    "setpriv",
    "chroot",
    "unshare",
    "nsenter",
    "newgrp",
    "sg",
    "login",
    "sh",
    "ash",
    "bash",
    "dash",
    "zsh",
    "ksh",
    "fish",
    "csh",
    "tcsh",
    "busybox",
    "toybox",
    "setsid",
    "nohup",
    "daemonize",
    "systemd-run",
    "at",
    "batch",
    "crontab",
    "script",
    "shutdown",
    "reboot",
    "halt",
    "poweroff",
    "mkfs",
    "dd",
];

/// Those that run what their arguments name.
const LAUNCHERS: [&str; 12] = [
    "env", "xargs", "nice", "ionice", "timeout", "stdbuf", "time", "chrt", "taskset", "watch",
    "parallel", "flock",
];

impl Default for ShellPolicy {
    fn default() -> ShellPolicy {
        ShellPolicy { allow: None, deny: DENIED.map(str::to_owned).to_vec() }
    }
}

impl ShellPolicy {
    /// Whether all of its programs may run, or why not.
    pub(super) fn check(&self, line: &CommandLine) -> Result<(), String> {
        line.steps.iter().flat_map(|step| &step.programs).try_for_each(|one| self.program(one))
    }

    fn program(&self, program: &Program) -> Result<(), String> {
        let name = &program.name;
        if self.denies(name) {
            return Err(format!("policy does not allow the program {}", super::path::shown(name)));
        }
        if let Some(allow) = &self.allow
            && !allow.contains(name)
        {
            return Err(format!(
                "policy does not allow the program {}; it allows: {}",
                super::path::shown(name),
                allow.join(", ")
            ));
        }
        if !launches(program) {
            return Ok(());
        }
        if self.allow.is_some() {
            // Which of its arguments is the program, only it knows.
            return Err(format!("{name} runs other programs, past the list of those allowed"));
        }
        match program.arguments.iter().find(|argument| self.denies(argument)) {
            Some(denied) => Err(format!(
                "policy does not allow the program {}, by {name} neither",
                super::path::shown(denied)
            )),
            None => Ok(()),
        }
    }

    fn denies(&self, program: &str) -> bool {
        let base = Path::new(program).file_name().and_then(|name| name.to_str());
        // `mkfs.ext4` is `mkfs`, and so on.
        let stem = base.and_then(|base| base.split('.').next());
        self.deny.iter().any(|denied| {
            [Some(program), base, stem].into_iter().flatten().any(|name| name == denied)
        })
    }
}

fn launches(program: &Program) -> bool {
    let base = Path::new(&program.name).file_name().and_then(|name| name.to_str());
    match base {
        Some("find") => program
            .arguments
            .iter()
            .any(|argument| ["-exec", "-execdir", "-ok", "-okdir"].contains(&argument.as_str())),
        Some(base) => LAUNCHERS.contains(&base),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::command::parse;
    use super::*;

    fn check(policy: &ShellPolicy, text: &str) -> Result<(), String> {
        policy.check(&parse(text).unwrap())
    }

    #[test]
    fn the_denied_are_refused_wherever_they_stand() {
        let policy = ShellPolicy::default();
        for text in [
            "sudo ls",
            "/usr/bin/sudo ls",
            "./sudo",
            "s'u'do ls",
            "su\\do ls",
            "ls | sudo tee x",
            "ls && doas ls",
            "ls; bash -c 'ls > /etc/x'",
            "env -i sudo ls",
            "xargs -n1 sh -c ls",
            "timeout 5 /bin/su",
            "find . -exec sudo ls ';'",
            "mkfs.ext4 x",
        ] {
            assert!(check(&policy, text).unwrap_err().contains("policy"), "{text}");
        }
        for text in ["ls", "grep sudo README", "find . -name sudo", "echo su", "env LANG=C ls"] {
            assert_eq!(check(&policy, text), Ok(()), "{text}");
        }
    }

    #[test]
    fn with_a_list_only_what_is_on_it_runs() {
        let allow = Some(vec!["ls".to_owned(), "xargs".to_owned(), "find".to_owned()]);
        let policy = ShellPolicy { allow, deny: Vec::new() };
        assert_eq!(check(&policy, "ls | ls"), Ok(()));
        assert_eq!(check(&policy, "find . -name x"), Ok(()));
        for text in ["cat x", "./ls", "/bin/ls", "ls | cat", "xargs ls", "find . -exec ls ';'"] {
            assert!(check(&policy, text).is_err(), "{text}");
        }
        let none = ShellPolicy { allow: Some(Vec::new()), deny: Vec::new() };
        assert!(check(&none, "ls").is_err());
    }

    #[test]
    fn what_is_denied_stays_denied_though_it_is_allowed() {
        let policy = ShellPolicy { allow: Some(vec!["sudo".to_owned()]), ..ShellPolicy::default() };
        assert!(check(&policy, "sudo ls").is_err());
    }
}
