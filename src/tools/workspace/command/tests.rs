//! A command line is understood as a shell would, or refused.

use proptest::prelude::*;

use super::*;

/// Each step's programs with their words.
fn words(text: &str) -> Vec<Vec<Vec<String>>> {
    let line = parse(text).unwrap_or_else(|e| panic!("{text}: {e}"));
    line.steps
        .into_iter()
        .map(|step| {
            step.programs
                .into_iter()
                .map(|program| {
                    let mut words = vec![program.name];
                    words.extend(program.arguments);
                    words
                })
                .collect()
        })
        .collect()
}

#[test]
fn words_and_quotes_are_read_as_a_shell_does() {
    for (text, expected) in [
        ("ls", vec!["ls"]),
        ("  ls\t-l  ", vec!["ls", "-l"]),
        ("echo 'a  b' \"c  d\" e\\ f", vec!["echo", "a  b", "c  d", "e f"]),
        ("echo a'b'\"c\"d", vec!["echo", "abcd"]),
        ("echo '' \"\"", vec!["echo", "", ""]),
        ("echo 'a\\b' \"a\\b\" \"\\\"\\\\\\$x\\`\"", vec!["echo", "a\\b", "a\\b", "\"\\$x`"]),
        ("echo '$x `y` * ~ #' \\$x \\*", vec!["echo", "$x `y` * ~ #", "$x", "*"]),
        ("grep 'x$' \"x$\" x$ y", vec!["grep", "x$", "x$", "x$", "y"]),
        ("echo a#b a~ {} a=b 2 x2", vec!["echo", "a#b", "a~", "{}", "a=b", "2", "x2"]),
        ("echo a\\\nb \"c\\\nd\"", vec!["echo", "ab", "cd"]),
        ("[ -f x ]", vec!["[", "-f", "x", "]"]),
        ("echo | cat", vec!["echo"]),
        ("echo ünï", vec!["echo", "ünï"]),
        ("find . ! -name x", vec!["find", ".", "!", "-name", "x"]),
    ] {
        assert_eq!(words(text)[0][0], expected, "{text}");
    }
}

#[test]
fn steps_and_pipes_are_told_apart() {
    let line = parse("a|b && c || d ; e").unwrap();
    let shape: Vec<(When, usize)> =
        line.steps.iter().map(|step| (step.when, step.programs.len())).collect();
    let expected = [(When::Always, 2), (When::Succeeded, 1), (When::Failed, 1), (When::Always, 1)];
    assert_eq!(shape, expected);
    for (text, steps) in
        [("a;", 1), ("a\nb\n", 2), ("\n\na\r\nb", 2), ("a &&\n b", 2), ("a |\n b", 1), ("a;\nb", 2)]
    {
        assert_eq!(parse(text).unwrap().steps.len(), steps, "{text:?}");
    }
    assert_eq!(parse("a &&\n b").unwrap().steps[1].when, When::Succeeded);
}

#[test]
fn redirections_are_taken_in_their_order() {
    let program = |text: &str| parse(text).unwrap().steps.remove(0).programs.remove(0);
    let output =
        |stream, path: &str, append| Redirection::Output { stream, path: path.to_owned(), append };
    let run = program("a <in >out 2>> 'e r' b");
    assert_eq!(run.arguments, ["b"]);
    assert_eq!(
        run.redirections,
        [
            Redirection::Input("in".to_owned()),
            output(Stream::Output, "out", false),
            output(Stream::Error, "e r", true)
        ]
    );
    assert_eq!(program("a 2>&1").redirections, [Redirection::Same(Stream::Error)]);
    assert_eq!(program("a >&2").redirections, [Redirection::Same(Stream::Output)]);
    // A number is one only right before the sign, and unquoted.
    assert_eq!(program("a 2 > x").arguments, ["2"]);
    assert_eq!(program("a '2'> x").arguments, ["2"]);
    assert_eq!(program("a x2> x").arguments, ["x2"]);
}

#[test]
fn what_a_shell_would_do_by_itself_is_refused_by_name() {
    use CommandError as E;
    for (text, expected) in [
        ("", E::Empty),
        (" \n ", E::Empty),
        ("ls $HOME", E::Variable),
        ("ls \"$HOME\"", E::Variable),
        ("ls ${x}", E::Variable),
        ("ls $(id)", E::Variable),
        ("ls \"$(id)\"", E::Variable),
        ("ls $'x'", E::Variable),
        ("ls `id`", E::Substitution),
        ("ls \"`id`\"", E::Substitution),
        ("cat <(id)", E::Substitution),
        ("ls *.rs", E::Wildcard('*')),
        ("ls ?", E::Wildcard('?')),
        ("ls [ab]", E::Wildcard('[')),
        ("ls {a,b}", E::Wildcard('{')),
        ("ls {1..3}", E::Wildcard('{')),
        ("ls ~", E::Tilde),
        ("ls ~root/x", E::Tilde),
        ("sleep 9 &", E::Background),
        ("sleep 9 & ls", E::Background),
        ("(ls)", E::Subshell),
        ("f() { ls; }", E::Subshell),
        ("ls # all", E::Comment),
        ("cat << X", E::HereDocument),
        ("cat <<< x", E::HereDocument),
        ("ls &> x", E::Redirection("&>".to_owned())),
        ("ls |& cat", E::Redirection("|&".to_owned())),
        ("ls >| x", E::Redirection(">|".to_owned())),
        ("ls 3> x", E::Redirection("3>".to_owned())),
        ("ls 2>&12", E::Redirection("2>&1".to_owned())),
        ("ls >&-", E::Redirection(">&-".to_owned())),
        ("ls <> x", E::Redirection("<>".to_owned())),
        ("ls >", E::NoTarget),
        ("ls > | cat", E::NoTarget),
        ("ls > ''", E::NoTarget),
        ("ls |", E::NoProgram("at the end")),
        ("ls &&", E::NoProgram("at the end")),
        ("| ls", E::NoProgram("before |")),
        ("ls ;; ls", E::NoProgram("before ;")),
        ("> x", E::NoProgram("at the end")),
        ("echo 'x", E::Unclosed('\'')),
        ("echo \"x", E::Unclosed('"')),
        ("echo \"x\\", E::Unclosed('"')),
        ("echo \\", E::Backslash),
        ("cd /", E::ChangeFolder),
        ("ls && cd ..", E::ChangeFolder),
        ("X=1 ls", E::Assignment("X".to_owned())),
        ("eval ls", E::ShellWord("\"eval\"".to_owned())),
        ("if ls", E::ShellWord("\"if\"".to_owned())),
        ("'' x", E::ShellWord("\"\"".to_owned())),
        ("l\0s", E::Nul),
    ] {
        assert_eq!(parse(text), Err(expected), "{text}");
    }
}

#[test]
fn the_limits_hold_to_the_last_one() {
    let text = |length: usize| format!("e {}", "x".repeat(length - 2));
    assert!(parse(&text(MAX_COMMAND)).is_ok());
    assert_eq!(parse(&text(MAX_COMMAND + 1)), Err(CommandError::TooLong));
    let pipes = |count: usize| vec!["a"; count].join("|");
    assert!(parse(&pipes(MAX_PROGRAMS)).is_ok());
    assert_eq!(parse(&pipes(MAX_PROGRAMS + 1)), Err(CommandError::TooManyPrograms));
    let steps = |count: usize| vec!["a"; count].join(";");
    assert!(parse(&steps(MAX_PROGRAMS)).is_ok());
    assert_eq!(parse(&steps(MAX_PROGRAMS + 1)), Err(CommandError::TooManyPrograms));
}

fn quote(word: &str, style: u8) -> String {
    match style {
        0 => format!("'{}'", word.replace('\'', "'\\''")),
        1 => {
            let mut quoted = String::from("\"");
            for char in word.chars() {
                if "\"\\$`".contains(char) {
                    quoted.push('\\');
                }
                quoted.push(char);
            }
            quoted + "\""
        }
        _ if word.is_empty() || word.contains('\n') => quote(word, 0),
        _ => word.chars().flat_map(|char| ['\\', char]).collect(),
    }
}

proptest! {
    #[test]
    fn what_is_quoted_comes_out_as_it_was(
        words in proptest::collection::vec(("[^\0]{0,12}|[-$`'\"\\\\\n #*?~{},;|&<>()=\\[\\]]{0,12}", 0u8..3), 1..8)
    ) {
        let text: Vec<String> =
            std::iter::once("p".to_owned()).chain(words.iter().map(|(word, style)| quote(word, *style))).collect();
        let line = parse(&text.join(" ")).unwrap();
        prop_assert_eq!(line.steps.len(), 1);
        prop_assert_eq!(line.steps[0].programs.len(), 1);
        let program = &line.steps[0].programs[0];
        prop_assert!(program.redirections.is_empty());
        let expected: Vec<&String> = words.iter().map(|(word, _)| word).collect();
        prop_assert_eq!(program.arguments.iter().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn nothing_makes_it_panic(text in ".{0,60}", symbols in "[-a1$`'\"\\\\\n #*?~{},;|&<>()=\\[\\]]{0,40}") {
        for text in [text, symbols] {
            if let Ok(line) = parse(&text) {
                prop_assert!(!line.steps.is_empty());
                prop_assert!(line.steps.iter().all(|step| !step.programs.is_empty()));
                prop_assert!(line.steps.iter().flat_map(|step| &step.programs).all(|one| !one.name.is_empty()));
            }
        }
    }
}
