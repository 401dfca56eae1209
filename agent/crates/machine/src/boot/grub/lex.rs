//! Words of GRUB's script language, as far as it takes to find menu entries: quoting, comments, braces and variables. What only
//! runs at boot (conditions, loops) is not followed.

/// A word of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Word {
    /// Its text; variables are not expanded, and stand as `${name}`.
    pub(super) text: String,
    /// Variables that are expanded in it, and whether within double quotes.
    pub(super) variables: Vec<(String, bool)>,
    quoted: bool,
}

impl Word {
    /// Whether this is the bare word `text`.
    pub(super) fn is(&self, text: &str) -> bool {
        !self.quoted && self.text == text
    }
}

/// A command, or the end of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Statement {
    /// A command and what it is given.
    Command(Vec<Word>),
    /// A command with a block, which follows.
    Block(Vec<Word>),
    /// The end of a block.
    End,
}

/// The statements of a script.
pub(super) fn statements(script: &str) -> Vec<Statement> {
    let mut lexer =
        Lexer { rest: script.chars().collect(), at: 0, statements: Vec::new(), words: Vec::new() };
    lexer.run();
    lexer.statements
}

struct Lexer {
    rest: Vec<char>,
    at: usize,
    statements: Vec<Statement>,
    words: Vec<Word>,
}

impl Lexer {
    fn peek(&self) -> Option<char> {
        self.rest.get(self.at).copied()
    }

    fn next(&mut self) -> Option<char> {
        let next = self.peek();
        self.at += 1;
        next
    }

    fn run(&mut self) {
        while let Some(c) = self.peek() {
            match c {
                '\n' | ';' | '&' | '|' => {
                    self.at += 1;
                    self.end_command();
                }
                '#' => {
                    while self.peek().is_some_and(|c| c != '\n') {
                        self.at += 1;
                    }
                }
                c if c.is_whitespace() => self.at += 1,
                // The line goes on.
                '\\' if self.rest.get(self.at + 1) == Some(&'\n') => self.at += 2,
                _ => {
                    let word = self.word();
                    self.take(word);
                }
            }
        }
        self.end_command();
    }

    /// Braces are words of their own, and only where they can begin or end a block.
    fn take(&mut self, word: Word) {
        if word.is("{") && !self.words.is_empty() {
            self.statements.push(Statement::Block(std::mem::take(&mut self.words)));
        } else if word.is("}") && self.words.is_empty() {
            self.statements.push(Statement::End);
        } else if self.words.is_empty() && ["then", "else", "do"].iter().any(|keyword| word.is(keyword)) {
            // A command may follow on the same line.
        } else {
            self.words.push(word);
        }
    }

    fn end_command(&mut self) {
        if !self.words.is_empty() {
            self.statements.push(Statement::Command(std::mem::take(&mut self.words)));
        }
    }

    fn word(&mut self) -> Word {
        let mut word = Word::default();
        while let Some(c) = self.peek() {
            match c {
                '\'' => {
                    word.quoted = true;
                    self.at += 1;
                    while let Some(c) = self.next().filter(|c| *c != '\'') {
                        word.text.push(c);
                    }
                }
                '"' => {
                    word.quoted = true;
                    self.at += 1;
                    self.double_quoted(&mut word);
                }
                '\\' => {
                    self.at += 1;
                    // At the end of a line, the line goes on.
                    if let Some(c) = self.next().filter(|c| *c != '\n') {
                        word.text.push(c);
                        word.quoted = true;
                    }
                }
                '$' => self.variable(&mut word, false),
                '\n' | ';' | '&' | '|' => break,
                c if c.is_whitespace() => break,
                c => {
                    word.text.push(c);
                    self.at += 1;
                }
            }
        }
        word
    }

    fn double_quoted(&mut self, word: &mut Word) {
        while let Some(c) = self.peek() {
            match c {
                '"' => {
                    self.at += 1;
                    return;
                }
                '$' => self.variable(word, true),
                '\\' => {
                    self.at += 1;
                    match self.next() {
                        Some(c @ ('"' | '\\' | '$')) => word.text.push(c),
                        Some('\n') | None => {}
                        Some(c) => word.text.extend(['\\', c]),
                    }
                }
                c => {
                    word.text.push(c);
                    self.at += 1;
                }
            }
        }
    }

    fn variable(&mut self, word: &mut Word, quoted: bool) {
        self.at += 1;
        let braced = self.peek() == Some('{');
        if braced {
            self.at += 1;
        }
        let mut name = String::new();
        while let Some(c) = self.peek().filter(|c| c.is_ascii_alphanumeric() || "_?*#@".contains(*c)) {
            name.push(c);
            self.at += 1;
        }
        if braced && self.peek() == Some('}') {
            self.at += 1;
        }
        word.text.push_str(&format!("${{{name}}}"));
        word.variables.push((name, quoted));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn texts(script: &str) -> Vec<Vec<String>> {
        let statements = statements(script).into_iter().map(|statement| match statement {
            Statement::Command(words) => words.into_iter().map(|word| word.text).collect(),
            Statement::Block(words) => {
                words.into_iter().map(|word| word.text).chain(["{".to_owned()]).collect()
            }
            Statement::End => vec!["}".to_owned()],
        });
        statements.collect()
    }

    #[test]
    fn expect_words_as_grub_takes_them_when_they_are_quoted() {
        let script = "menuentry 'It'\\''s one' --id \"a \\\"b\\\" c\" { # why\n\tlinux /v ro ${drover} \"$x y\"; initrd /i\n}\n";
        assert_eq!(
            texts(script),
            [
                vec!["menuentry", "It's one", "--id", "a \"b\" c", "{"],
                vec!["linux", "/v", "ro", "${drover}", "${x} y"],
                vec!["initrd", "/i"],
                vec!["}"],
            ]
        );
        let Some(Statement::Command(linux)) = statements(script).into_iter().nth(1) else { panic!() };
        assert_eq!(linux[3].variables, [("drover".to_owned(), false)]);
        assert_eq!(linux[4].variables, [("x".to_owned(), true)]);
    }

    #[test]
    fn expect_commands_apart_when_they_stand_on_one_line() {
        let script = "if [ \"${a}\" ] ; then set b=\"${a}\"; fi\nlinux \\\n /v # x\necho a}b '}'";
        assert_eq!(
            texts(script),
            [
                vec!["if", "[", "${a}", "]"],
                vec!["set", "b=${a}"],
                vec!["fi"],
                vec!["linux", "/v"],
                vec!["echo", "a}b", "}"],
            ]
        );
    }

    proptest! {
        #[test]
        fn expect_an_end_when_the_script_is_arbitrary(script in "[a-z{}$'\"\\\\#;\\n ]{0,80}") {
            let _ = statements(&script);
        }
    }
}
