//! Scripts for the host's `sh`, as command lines that every login shell passes on untouched. Pure.
//!
//! sshd gives a command line to the user's login shell, which may be csh or fish. Their quoting rules agree with those
//! of sh on text in single quotes that has no quote, backslash before a quote, `!` or line break in it. So the script is
//! written that way, with octal escapes for the rest, and `printf` on the host makes it what it was.

/// Length of the pieces that a script is cut into, in bytes. Some shells refuse words of more than 1024.
const PIECE: usize = 512;

/// What the lines begin with that our scripts and the agent print, so that they are told from a login shell's greetings.
pub(super) const MARK: &str = drover_agent::BRIDGE_MARK;

/// Functions for all scripts.
const COMMON: &str = include_str!("common.sh");

/// A command line that runs a script with arguments.
pub(super) fn command_line(script: &str, arguments: &[&str]) -> String {
    let mut text = format!("mark={}\nset --", quote(MARK));
    for argument in arguments {
        text.push(' ');
        text.push_str(&quote(argument));
    }
    text.push('\n');
    text.push_str(COMMON);
    text.push_str(script);
    let mut line = String::from(r#"exec sh -c 'eval "$(printf %b "$@")"' drover"#);
    let mut piece = String::new();
    for character in text.chars() {
        let start = piece.len();
        match character {
            '\'' | '\\' | '!' | '%' | '\n' => piece.push_str(&format!("\\0{:03o}", u32::from(character))),
            other => piece.push(other),
        }
        if piece.len() > PIECE {
            let next = piece.split_off(start);
            line.push_str(&format!(" '{piece}'"));
            piece = next;
        }
    }
    line.push_str(&format!(" '{piece}'"));
    line
}

/// A word for sh.
fn quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// What a script said: its lines with the mark, without it.
pub(super) fn said(stdout: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(stdout);
    // A greeting without a line break may stand before the first one.
    let lines = text.lines().filter_map(|line| line.split_once(MARK));
    lines.map(|(_, said)| said.trim().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// Arguments that some shell could take for something else.
    const HARD: [&str; 9] = [
        "",
        "it's",
        "a b\tc",
        "$HOME `id` $(id)",
        "back\\slash \\n \\'",
        "bang!x!!",
        "new\nline",
        "%s%d",
        "ümläut*?[a]~{a,b}",
    ];

    #[test]
    fn expect_arguments_untouched_when_any_login_shell_passes_the_script_on() {
        // Long enough to be cut.
        let filler = "x".repeat(3000);
        let mut arguments = HARD.to_vec();
        arguments.push(&filler);
        let line = command_line("for word in \"$@\"; do printf '<%s>' \"$word\"; done\n", &arguments);
        let expected: String = arguments.iter().map(|argument| format!("<{argument}>")).collect();
        for shell in ["sh", "bash", "csh", "fish"] {
            let output = Command::new(shell).args(["-c", &line]).output().unwrap();
            let (said, errors) = (String::from_utf8(output.stdout), String::from_utf8_lossy(&output.stderr));
            assert_eq!(said.as_deref(), Ok(expected.as_str()), "{shell}: {errors}");
        }
    }

    #[test]
    fn expect_only_marked_lines_when_the_shell_greets() {
        let text = format!("Welcome!\nno newline{MARK} dir /a b\n{MARK} end\nbye");
        assert_eq!(said(text.as_bytes()), ["dir /a b", "end"]);
    }
}
