//! `files` of a role (contents written in the matrix, or a file beside it) and `artifacts`, what it leaves.

use drover_model::Name;

use super::{
    fields::{self, Fields, Problems},
    units, value,
};
use crate::{
    keys,
    scalar::Scalar,
    spec::{FileContents, FileReference, RoleFile},
    template::Template,
    tree::{Entry, Kind, Node},
};

/// Bytes fetched of a role's artifacts when it does not say.
const DEFAULT_ARTIFACTS: u64 = 64 << 20;
const MAX_ARTIFACTS: u64 = 1 << 30;

/// Decodes `files`. References to files beside the matrix are added to `references`.
pub(crate) fn files(
    node: Option<&Node>,
    role: &Name,
    references: &mut Vec<FileReference>,
    problems: &mut Problems,
) -> Vec<RoleFile> {
    let Some(node) = node else { return Vec::new() };
    let what = format!("`files` of role `{role}`");
    let entries = fields::entries(node, &what, "files: { httpd.conf: { from: httpd.conf } }", problems);
    entries.iter().filter_map(|entry| file(entry, role, references, problems)).collect()
}

fn file(
    entry: &Entry,
    role: &Name,
    references: &mut Vec<FileReference>,
    problems: &mut Problems,
) -> Option<RoleFile> {
    let path = relative_path(&entry.key, "the file name", problems);
    let what = format!("the file `{}`", entry.key.text);
    if let Kind::Scalar(scalar) = &entry.value.kind {
        let contents = FileContents::Inline(Template::new(scalar));
        return Some(RoleFile { path: path?, contents, executable: false });
    }
    let fields = Fields::open(&entry.value, what.clone(), keys::FILE, problems)?;
    let flag = |key: &str, problems: &mut Problems| {
        fields
            .get(key)
            .and_then(|node| value::boolean(node, &format!("`{key}` of {what}"), problems))
            .unwrap_or(false)
    };
    let raw = flag("raw", problems);
    let executable = flag("executable", problems);
    let contents = match (fields.get("from"), fields.get("text")) {
        (Some(from), None) => {
            let scalar = value::scalar(from, "`from`", problems)?;
            let source = relative_path(scalar, "the path in `from`", problems)?;
            references.push(FileReference {
                role: role.clone(),
                path: source,
                raw,
                span: scalar.span.clone(),
            });
            FileContents::Reference(references.len() - 1)
        }
        (None, Some(text)) => {
            if let Some(raw) = fields.entry("raw") {
                let help = "leave it out, or write `{% raw %}...{% endraw %}` in the text";
                problems.add(raw.key.span.clone(), "`raw` belongs to `from`", help);
            }
            FileContents::Inline(Template::new(value::scalar(text, "`text`", problems)?))
        }
        _ => {
            let message = format!("{what} needs either `from` or `text`");
            let help = "from: PATH beside the matrix file, or text: the contents themselves";
            problems.add(entry.key.span.clone(), message, help);
            return None;
        }
    };
    Some(RoleFile { path: path?, contents, executable })
}

/// Decodes `artifacts` and `artifact_limit`: what is fetched from the attempt's folder, and how many bytes at most.
pub(crate) fn artifacts(fields: &Fields<'_>, problems: &mut Problems) -> (Vec<String>, u64) {
    let mut list: Vec<String> = Vec::new();
    for item in fields.get("artifacts").map(fields::one_or_many).unwrap_or_default() {
        let Some(scalar) = value::scalar(item, "an artifact", problems) else { continue };
        let Some(glob) = glob(scalar, problems) else { continue };
        if list.contains(&glob) {
            let message = format!("the artifact `{glob}` is named twice");
            problems.add(item.span.clone(), message, "keep one of them");
            continue;
        }
        list.push(glob);
    }
    let Some(entry) = fields.entry("artifact_limit") else { return (list, DEFAULT_ARTIFACTS) };
    if fields.lacks("artifacts") {
        let message = format!("{} has `artifact_limit` and no `artifacts`", fields.what());
        problems.add(entry.key.span.clone(), message, "name what is to be fetched: artifacts: [\"*.log\"]");
    }
    let bytes = units::size_within(&entry.value, "`artifact_limit`", 1..=MAX_ARTIFACTS, problems);
    (list, bytes.unwrap_or(DEFAULT_ARTIFACTS))
}

/// A relative path with `*`, `?` and `**` in it.
fn glob(scalar: &Scalar, problems: &mut Problems) -> Option<String> {
    let path = relative_path(scalar, "the artifact", problems)?;
    let odd = path.chars().find(|c| matches!(c, '{' | '}' | '[' | ']' | '\\'));
    let problem = match odd {
        Some(c) => format!("the artifact `{path}` has a `{c}`"),
        None if path.split('/').any(|part| part.contains("**") && part != "**") => {
            format!("the artifact `{path}` has a `**` that is not a whole part of the path")
        }
        None => return Some(path),
    };
    let help = "`*` and `?` stand for characters of one name, `**` for any folders: logs/**/*.txt";
    problems.add(scalar.span.clone(), problem, help);
    None
}

/// A path that cannot leave its folder.
fn relative_path(scalar: &Scalar, what: &str, problems: &mut Problems) -> Option<String> {
    let path = scalar.text.strip_prefix("./").unwrap_or(&scalar.text);
    let problem = if path.is_empty() {
        "is empty"
    } else if path.starts_with('/') {
        "is absolute"
    } else if path.split('/').any(|part| part == "..") {
        "leaves its folder with `..`"
    } else if path.split('/').any(|part| part.is_empty() || part == ".") {
        "has an empty part"
    } else if path.len() > 255 || path.contains(|c: char| c.is_control()) {
        "is too long or has control characters"
    } else if path.contains("{{") || path.contains("{%") {
        "has a template in it"
    } else {
        return Some(path.to_owned());
    };
    let help = "use a plain relative path, such as `conf/httpd.conf`";
    problems.add(scalar.span.clone(), format!("{what} `{}` {problem}", scalar.text), help);
    None
}
