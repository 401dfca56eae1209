//! The words that a boot is known by, on the command line of the kernel that it starts.

use drover_model::NONCE_KEY;

/// Longest nonce and longest further word, in bytes.
const MAX_WORD: usize = 256;

/// Words with which a controller has a kernel use fewer CPUs; of a boot that is over, they are not taken along.
const CPU_WORDS: [&str; 2] = ["nr_cpus=", "maxcpus="];

/// Words of the boot loader about the kernel that it started.
const LOADER_WORDS: [&str; 2] = ["BOOT_IMAGE=", "initrd="];

/// `drover.nonce=NONCE`, and further words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Words(Vec<String>);

/// A word that cannot be passed through every boot loader as it is.
#[derive(Debug, thiserror::Error)]
#[error(
    "`{}` cannot be a word on a kernel's command line: letters, digits and `-_.,=:/@+` are allowed, at most {MAX_WORD} of them",
    .0.escape_debug()
)]
pub struct WordError(String);

impl Words {
    /// Those of the boot that is called `nonce`.
    ///
    /// # Errors
    /// When a word has characters that mean something to a boot loader, or is too long.
    pub fn new(nonce: &str, more: &[String]) -> Result<Self, WordError> {
        let fits = |word: &str| (1..=MAX_WORD).contains(&word.len()) && word.bytes().all(is_plain);
        let is_nonce = fits(nonce) && nonce.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        if !is_nonce {
            return Err(WordError(nonce.to_owned()));
        }
        if let Some(word) = more.iter().find(|word| !fits(word)) {
            return Err(WordError(word.clone()));
        }
        Ok(Self(std::iter::once(format!("{NONCE_KEY}={nonce}")).chain(more.iter().cloned()).collect()))
    }

    /// All of them, as they stand on a command line.
    #[must_use]
    pub fn line(&self) -> String {
        self.0.join(" ")
    }

    /// The first: the nonce.
    pub(super) fn nonce(&self) -> &str {
        let first = self.0.first().map(String::as_str).unwrap_or_default();
        first.split_once('=').map_or(first, |(_, nonce)| nonce)
    }

    /// A command line with these words at its end, and without those of former boots.
    pub(super) fn after(&self, cmdline: &str) -> String {
        let mut line = without_former(cmdline);
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(&self.line());
        line
    }
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_.,=:/@+".contains(&byte)
}

/// A command line without the nonce of a former boot, the CPU words that follow it, and what the boot loader added. Words are
/// kept as they are; double quotes keep blanks together, as they do for the kernel.
fn without_former(cmdline: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let mut after_nonce = false;
    for word in words(cmdline) {
        let is_nonce = word.strip_prefix(NONCE_KEY).is_some_and(|rest| rest.starts_with('='));
        let is_former = after_nonce && CPU_WORDS.iter().any(|key| word.starts_with(key));
        after_nonce = is_nonce || is_former;
        if !after_nonce && !LOADER_WORDS.iter().any(|key| word.starts_with(key)) {
            kept.push(word);
        }
    }
    kept.join(" ")
}

fn words(cmdline: &str) -> impl Iterator<Item = &str> {
    let mut quoted = false;
    let split = cmdline.split(move |c: char| {
        quoted ^= c == '"';
        !quoted && c.is_whitespace()
    });
    split.filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words_of(nonce: &str, more: &[&str]) -> Result<Words, WordError> {
        Words::new(nonce, &more.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn expect_the_nonce_first_when_there_are_more_words() {
        let words = words_of("n-1", &["nr_cpus=2", "mitigations=off"]).unwrap();
        assert_eq!(words.line(), "drover.nonce=n-1 nr_cpus=2 mitigations=off");
        assert_eq!(words.nonce(), "n-1");
    }

    #[test]
    fn expect_a_refusal_when_a_word_would_mean_something_to_a_boot_loader() {
        for (nonce, more) in [
            ("", vec![]),
            ("a b", vec![]),
            ("a=b", vec![]),
            ("n", vec![""]),
            ("n", vec!["a b"]),
            ("n", vec!["a;reboot"]),
        ] {
            assert!(words_of(nonce, &more).unwrap_err().to_string().contains("are allowed"));
        }
        for bad in ["$x", "a'b", "a\"b", "a\\b", "a\nb", "ä"] {
            assert!(words_of("n", &[bad]).is_err(), "{bad}");
        }
    }

    #[test]
    fn expect_no_words_of_a_former_boot_when_a_command_line_is_used_again() {
        let words = words_of("new", &["nr_cpus=4"]).unwrap();
        let former = "BOOT_IMAGE=/vmlinuz-6.1 root=/dev/vda1 drover.nonce=old nr_cpus=1 maxcpus=1 quiet dyndbg=\"file a +p\"";
        assert_eq!(
            words.after(former),
            "root=/dev/vda1 quiet dyndbg=\"file a +p\" drover.nonce=new nr_cpus=4"
        );
        // What the host itself says of its CPUs stays.
        assert_eq!(words.after("nr_cpus=8 ro"), "nr_cpus=8 ro drover.nonce=new nr_cpus=4");
        assert_eq!(words.after(""), "drover.nonce=new nr_cpus=4");
    }
}
