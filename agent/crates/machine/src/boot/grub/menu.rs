//! The menu of a `grub.cfg`: entries and submenus, and which of them GRUB takes for a name.

use super::lex::{Statement, Word, statements};

/// The variable of the environment block that the words are in.
pub(super) const VARIABLE: &str = "drover";

/// Commands that load a kernel.
const LOADERS: [&str; 4] = ["linux", "linux16", "linuxefi", "linuxxen"];

/// What a `grub.cfg` says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Menu {
    pub(super) entries: Vec<Entry>,
    /// Whether it loads `next_entry` from its environment block, and the variable [`VARIABLE`].
    pub(super) loads_next: bool,
    pub(super) loads_words: bool,
    /// Whether it boots `next_entry` and clears it.
    pub(super) boots_next: bool,
    pub(super) clears_next: bool,
    /// Whether entries are protected by passwords, unless they say otherwise.
    pub(super) protected: bool,
    /// Whether submenus see the variable [`VARIABLE`].
    pub(super) exports: bool,
    /// Whether it has entries from `loader/entries` (Fedora's `blscfg`).
    pub(super) blscfg: bool,
    /// Whether it reads `custom.cfg`, which stands beside it.
    pub(super) custom: bool,
}

/// An entry, or a submenu.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) title: String,
    pub(super) id: Option<String>,
    /// Entries of a submenu; `None` for an entry.
    pub(super) submenu: Option<Vec<Entry>>,
    /// Whether the kernel's command line has the variable [`VARIABLE`], so that its words are words there.
    pub(super) takes_words: bool,
    /// Whether it is booted without a password.
    pub(super) unrestricted: bool,
}

/// An entry that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// How GRUB is told: unique, and for each level the id, or the title where there is none.
    pub(super) path: String,
    /// Whether the words get to the kernel's command line.
    pub(super) takes_words: bool,
}

/// Why there is no such entry.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum EntryError {
    /// No entry has this title or id.
    #[error("there is no entry `{name}`{}; there are: {}", alike.as_ref().map(|alike| format!(", did you mean `{alike}`?")).unwrap_or_default(), list(there))]
    Absent {
        /// What was asked for.
        name: String,
        /// One that is called alike.
        alike: Option<String>,
        /// All entries.
        there: Vec<String>,
    },
    /// It is a submenu.
    #[error("`{name}` is a submenu; name one of its entries: {}", list(there))]
    Submenu {
        /// What was asked for.
        name: String,
        /// Its entries.
        there: Vec<String>,
    },
    /// GRUB would ask for a password, and wait for ever.
    #[error("GRUB asks for a password before it boots `{0}` (superusers); give the entry `--unrestricted`")]
    Protected(String),
    /// GRUB would take another one.
    #[error(
        "GRUB would take `{name}` for {other}; name an entry by its id (`--id` of menuentry), which is unique and does not begin with a digit"
    )]
    Mistaken {
        /// How GRUB would be told.
        name: String,
        /// What it would take it for.
        other: &'static str,
    },
}

fn list(there: &[String]) -> String {
    if there.is_empty() { "none".to_owned() } else { there.join("; ") }
}

impl Menu {
    /// Reads a `grub.cfg`.
    pub(super) fn parse(script: &str) -> Self {
        let mut menu = Self::default();
        let statements = statements(script);
        menu.entries = menu.block(&mut statements.into_iter());
        menu
    }

    /// Adds what another file says that this one reads.
    pub(super) fn add(&mut self, other: Self) {
        self.entries.extend(other.entries);
        self.exports |= other.exports;
    }

    /// Statements up to the end of a block; the entries among them.
    fn block(&mut self, statements: &mut impl Iterator<Item = Statement>) -> Vec<Entry> {
        let mut entries = Vec::new();
        while let Some(statement) = statements.next() {
            match statement {
                Statement::End => break,
                Statement::Command(words) => self.command(&words),
                Statement::Block(words) => match words.first() {
                    Some(first) if first.is("menuentry") => {
                        let mut entry = entry(&words);
                        entry.takes_words = takes_words(statements);
                        entries.push(entry);
                    }
                    Some(first) if first.is("submenu") => {
                        let mut entry = entry(&words);
                        entry.submenu = Some(self.block(statements));
                        entries.push(entry);
                    }
                    // What a function does counts where it is called, which is not followed.
                    _ => entries.extend(self.block(statements)),
                },
            }
        }
        entries
    }

    fn command(&mut self, words: &[Word]) {
        let Some((name, args)) = words.split_first() else { return };
        let has = |text: &str| args.iter().any(|word| word.text == text);
        match name.text.as_str() {
            "load_env" => {
                // All variables, unless it names some.
                let file = args.iter().any(|word| matches!(word.text.as_str(), "-f" | "--file"));
                let names = args.iter().filter(|word| !word.text.starts_with('-')).count();
                let all = names <= usize::from(file);
                self.loads_next |= all || has("next_entry");
                self.loads_words |= all || has(VARIABLE);
            }
            "save_env" if has("next_entry") => self.clears_next = true,
            "export" if has(VARIABLE) => self.exports = true,
            "blscfg" => self.blscfg = true,
            "source" | "." | "configfile" => {
                self.custom |= args.iter().any(|word| word.text.ends_with("/custom.cfg"));
            }
            "set" => {
                let default = args.iter().filter(|word| word.text.starts_with("default="));
                self.protected |= args
                    .iter()
                    .any(|word| word.text.strip_prefix("superusers=").is_some_and(|users| !users.is_empty()));
                self.boots_next |=
                    default.flat_map(|word| &word.variables).any(|(name, _)| name == "next_entry");
            }
            _ => {}
        }
    }

    /// The entry that is called so: titles or ids, or the numbers that GRUB counts, separated by `>`.
    ///
    /// # Errors
    /// When there is none, it is a submenu, or GRUB would take another one for it.
    pub(super) fn find(&self, name: &str) -> Result<Found, EntryError> {
        let mut entries = &self.entries;
        let (mut path, mut prefix) = (Vec::new(), String::new());
        let parts = parts(name);
        for (level, part) in parts.iter().enumerate() {
            let Some(entry) = named(entries, part) else { return Err(self.absent(name)) };
            path.push(told(entry));
            prefix.push_str(&shown(entry));
            match (&entry.submenu, level + 1 == parts.len()) {
                (Some(submenu), false) => {
                    entries = submenu;
                    prefix.push('>');
                }
                (Some(submenu), true) => {
                    let there = leaves(submenu, &format!("{prefix}>"));
                    return Err(EntryError::Submenu { name: name.to_owned(), there });
                }
                (None, true) => {
                    if self.protected && !entry.unrestricted {
                        return Err(EntryError::Protected(name.to_owned()));
                    }
                    let takes_words = entry.takes_words && self.loads_words && (level == 0 || self.exports);
                    return self.told(path, entry).map(|path| Found { path, takes_words });
                }
                (None, false) => return Err(self.absent(name)),
            }
        }
        Err(self.absent(name))
    }

    /// How GRUB is told of an entry, provided that it understands it so.
    fn told(&self, path: Vec<&str>, wanted: &Entry) -> Result<String, EntryError> {
        let name = path.iter().map(|part| part.replace('>', ">>")).collect::<Vec<_>>().join(">");
        let mistaken = |other| EntryError::Mistaken { name: name.clone(), other };
        let mut entries = &self.entries;
        let mut taken = None;
        for part in &path {
            if is_number(part) {
                return Err(mistaken("a number"));
            }
            // GRUB takes the first that has it for its title or its id.
            taken = entries.iter().find(|entry| entry.title == *part || entry.id.as_deref() == Some(*part));
            if let Some(submenu) = taken.and_then(|entry| entry.submenu.as_ref()) {
                entries = submenu;
            }
        }
        if taken.is_some_and(|taken| std::ptr::eq(taken, wanted)) {
            Ok(name)
        } else {
            Err(mistaken("another entry that is called the same"))
        }
    }

    fn absent(&self, name: &str) -> EntryError {
        let there = leaves(&self.entries, "");
        let likeness = |other: &String| strsim::jaro_winkler(name, other);
        let alike = there.iter().max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
        let alike = alike.filter(|alike| likeness(alike) > 0.85).cloned();
        EntryError::Absent { name: name.to_owned(), alike, there }
    }
}

/// The title and the id of a `menuentry` or `submenu` with these words.
fn entry(words: &[Word]) -> Entry {
    let mut entry = Entry::default();
    let mut title = None;
    let mut words = words.iter().skip(1);
    while let Some(word) = words.next() {
        let option = word.text.strip_prefix("--");
        if option == Some("id") || word.text == "${menuentry_id_option}" {
            entry.id = words.next().map(|word| word.text.clone());
        } else if let Some(id) = option.and_then(|option| option.strip_prefix("id=")) {
            entry.id = Some(id.to_owned());
        } else if option == Some("unrestricted") {
            entry.unrestricted = true;
        } else if matches!(option, Some("class" | "users" | "hotkey" | "source")) {
            words.next();
        } else if option.is_none() && title.is_none() {
            title = Some(word.text.clone());
        }
    }
    entry.title = title.unwrap_or_default();
    entry
}

/// Reads the block of an entry; whether its kernel gets the words. Within double quotes they would be one word.
fn takes_words(statements: &mut impl Iterator<Item = Statement>) -> bool {
    let (mut depth, mut takes) = (1_usize, false);
    for statement in statements {
        match statement {
            Statement::Block(_) => depth += 1,
            Statement::End if depth == 1 => break,
            Statement::End => depth -= 1,
            Statement::Command(words) => {
                let loads = words.first().is_some_and(|name| LOADERS.contains(&name.text.as_str()));
                let bare =
                    |word: &Word| word.variables.iter().any(|(name, quoted)| name == VARIABLE && !quoted);
                takes |= loads && words.iter().any(bare);
            }
        }
    }
    takes
}

/// The parts of a path; `>>` stands for `>` in a title.
fn parts(path: &str) -> Vec<String> {
    let (mut parts, mut part) = (Vec::new(), String::new());
    let mut chars = path.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '>' {
            part.push(c);
        } else if chars.next_if_eq(&'>').is_some() {
            part.push('>');
        } else {
            parts.push(std::mem::take(&mut part));
        }
    }
    parts.push(part);
    parts
}

fn named<'a>(entries: &'a [Entry], part: &str) -> Option<&'a Entry> {
    let named = entries.iter().find(|entry| entry.id.as_deref() == Some(part) || entry.title == part);
    named.or_else(|| entries.get(part.parse::<usize>().ok()?))
}

/// The name by which GRUB is told of an entry.
fn told(entry: &Entry) -> &str {
    entry.id.as_deref().filter(|id| !is_number(id)).unwrap_or(&entry.title)
}

/// Whether GRUB takes a name for a number: its `strtoul` looks at the first characters only.
fn is_number(name: &str) -> bool {
    name.trim_start().starts_with(|c: char| c.is_ascii_digit())
}

fn shown(entry: &Entry) -> String {
    entry.title.replace('>', ">>")
}

/// All entries below, as a user would name them.
fn leaves(entries: &[Entry], prefix: &str) -> Vec<String> {
    let of = |entry: &Entry| match &entry.submenu {
        Some(submenu) => leaves(submenu, &format!("{prefix}{}>", shown(entry))),
        None => vec![format!("{prefix}{}", shown(entry))],
    };
    entries.iter().flat_map(of).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// As `grub-mkconfig` of Debian 12 makes it for two kernels, with `GRUB_CMDLINE_LINUX='console=ttyS0 ${drover}'`.
    const DEBIAN: &str = include_str!("../../../tests/testdata/boot/debian-12.cfg");

    const ADVANCED: &str = "Advanced options for Debian GNU/Linux";

    #[test]
    fn expect_the_ids_when_entries_of_debian_are_found_by_title() {
        let menu = Menu::parse(DEBIAN);
        assert!(menu.loads_next && menu.boots_next && menu.clears_next && menu.custom, "{menu:?}");
        assert!(!menu.exports && !menu.blscfg, "{menu:?}");
        let uuid = "3f1c2f6e-5a0b-4a8e-9d57-0c2f6b1f7d11";
        let title = format!("{ADVANCED}>Debian GNU/Linux, with Linux 6.1.0-50-amd64");
        let id = format!("gnulinux-advanced-{uuid}>gnulinux-6.1.0-50-amd64-advanced-{uuid}");
        for name in [&title, &id, "1>2"] {
            // Without `export drover`, a submenu does not see the variable.
            assert_eq!(menu.find(name), Ok(Found { path: id.clone(), takes_words: false }));
        }
        let simple = menu.find("Debian GNU/Linux").unwrap();
        assert_eq!(simple, Found { path: format!("gnulinux-simple-{uuid}"), takes_words: true });
        let mut exporting = menu;
        exporting.add(Menu::parse("export drover\n"));
        assert!(exporting.find(&id).unwrap().takes_words);
    }

    #[test]
    fn expect_what_there_is_when_there_is_no_such_entry() {
        let menu = Menu::parse(DEBIAN);
        let text = menu.find(&format!("{ADVANCED}>Debian GNU/Linux, with Linux 6.1.0-51-amd64")).unwrap_err();
        let text = text.to_string();
        assert!(text.contains("did you mean `Advanced options for Debian GNU/Linux>Debian GNU/Linux, with Linux 6.1.0-50-amd64`?"), "{text}");
        assert!(text.contains("6.12.57+deb12-amd64 (recovery mode)"), "{text}");
        let text = menu.find(ADVANCED).unwrap_err().to_string();
        assert!(text.contains("is a submenu") && text.contains("with Linux 6.1.0-50-amd64"), "{text}");
        for name in ["", ">", "Debian GNU/Linux>x", "7", "1>9"] {
            assert!(matches!(menu.find(name), Err(EntryError::Absent { .. })), "{name}");
        }
        assert!(Menu::default().find("x").unwrap_err().to_string().contains("there are: none"));
    }

    #[test]
    fn expect_a_refusal_when_grub_would_take_another_entry() {
        let menu = Menu::parse(
            "menuentry '6.1' {\n}\nmenuentry a {\n}\nmenuentry a --id b {\n}\nmenuentry c --id a {\n}\nmenuentry 'x>y' {\n}\n",
        );
        assert!(menu.find("6.1").unwrap_err().to_string().contains("for a number"));
        assert_eq!(menu.find("b").unwrap().path, "b");
        assert!(menu.find("c").unwrap_err().to_string().contains("called the same"));
        assert_eq!(menu.find("x>>y").unwrap().path, "x>>y");
    }

    #[test]
    fn expect_no_words_taken_when_the_variable_is_quoted_or_elsewhere() {
        for (linux, takes) in [
            ("linux /v ro ${drover}", true),
            ("linux /v ro $drover quiet", true),
            ("if true; then linux /v $drover; fi", true),
            ("linux /v \"ro ${drover}\"", false),
            ("linux /v '${drover}'", false),
            ("linux /v ro $drovers", false),
            ("echo $drover; linux /v", false),
        ] {
            let menu = Menu::parse(&format!("load_env\nmenuentry x {{\n{linux}\n}}\n"));
            assert_eq!(menu.find("x").unwrap().takes_words, takes, "{linux}");
        }
        for (load, takes) in [
            ("load_env -f ${x}/grubenv", true),
            ("load_env next_entry", false),
            ("load_env --file /x drover", true),
        ] {
            let menu = Menu::parse(&format!("{load}\nmenuentry x {{\nlinux /v $drover\n}}\n"));
            assert_eq!(menu.find("x").unwrap().takes_words, takes, "{load}");
        }
    }

    #[test]
    fn expect_a_refusal_when_grub_would_ask_for_a_password() {
        let menu =
            Menu::parse("set superusers=\"root\"\nmenuentry a {\n}\nmenuentry b --unrestricted {\n}\n");
        assert!(menu.find("a").unwrap_err().to_string().contains("--unrestricted"));
        assert_eq!(menu.find("b").unwrap().path, "b");
    }

    #[test]
    fn expect_a_menu_that_is_not_honoured_when_next_entry_is_not_cleared() {
        let menu = Menu::parse("load_env\nset default=\"${next_entry}\"\nset next_entry=\n");
        assert!(menu.loads_next && menu.boots_next && !menu.clears_next);
        let menu = Menu::parse("load_env\nset default=\"${saved_entry}\"\nsave_env next_entry\n");
        assert!(!menu.boots_next && menu.clears_next);
    }

    proptest! {
        #[test]
        fn expect_every_path_understood_when_it_was_found(
            titles in proptest::collection::vec(("[a-c>1]{1,3}", proptest::option::of("[a-c]{1,2}")), 1..6),
            asked in "[a-c>1]{1,5}"
        ) {
            let script: String = titles.iter().map(|(title, id)| {
                let id = id.as_ref().map(|id| format!(" --id {id}")).unwrap_or_default();
                format!("menuentry '{title}'{id} {{\n}}\n")
            }).collect();
            let menu = Menu::parse(&script);
            prop_assert_eq!(menu.entries.len(), titles.len());
            if let Ok(found) = menu.find(&asked) {
                prop_assert_eq!(menu.find(&found.path).map(|again| again.path), Ok(found.path));
            }
        }
    }
}
