//! Words that Treepie once had for things that the field has a word for. None of them comes back: phrases are looked
//! for in everything that is written here, single words among the names that a crate defines.

use std::fs;
use std::path::{Path, PathBuf};

/// Phrases, in any file, whatever the case and the line breaks.
const PHRASES: &str = include_str!("retired_words/phrases.txt");

/// `crate word`: no item, field, variant or file of the crate has the word as a part of its name; `*` stands for every
/// crate.
const NAMES: &str = include_str!("retired_words/names.txt");

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the workspace").to_path_buf()
}

/// All files below, but for what is built and what git keeps; this test and its lists do not count.
fn files(below: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(below).expect("a readable directory") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        if path.is_dir() {
            if !(name == "target" || name.starts_with('.') || name == "retired_words" || name == "samples") {
                files(&path, found);
            }
        } else if name != "retired_words.rs"
            && [".rs", ".md", ".toml", ".c", ".h", ".sh"].iter().any(|ending| name.ends_with(ending))
        {
            found.push(path);
        }
    }
}

fn rows(list: &'static str) -> impl Iterator<Item = &'static str> {
    list.lines().map(str::trim).filter(|row| !row.is_empty() && !row.starts_with('#'))
}

/// In lower case, with each run of white space and comment signs as one blank, so that phrases are found across lines.
fn flattened(text: &str) -> String {
    let words = text.split_whitespace().filter(|word| !matches!(*word, "//" | "///" | "//!" | "*"));
    let mut flat = String::with_capacity(text.len());
    for word in words {
        flat.push_str(&word.to_lowercase());
        flat.push(' ');
    }
    flat
}

/// `phrase` in `text`, not as a part of a longer word.
fn contains_phrase(text: &str, phrase: &str) -> bool {
    let is_part = |character: Option<char>| character.is_some_and(|c| c.is_alphanumeric() || c == '_');
    text.match_indices(phrase)
        .any(|(at, _)| !is_part(text[..at].chars().next_back()) && !is_part(text[at + phrase.len()..].chars().next()))
}

/// The parts of a name: `look_for_fronts` and `LookForFronts` are look, for, fronts.
fn parts(name: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut before_is_lower = false;
    for character in name.chars() {
        if character == '_' {
            parts.push(String::new());
        } else {
            if character.is_uppercase() && before_is_lower {
                parts.push(String::new());
            }
            parts.last_mut().expect("a part").extend(character.to_lowercase());
        }
        before_is_lower = character.is_lowercase();
    }
    parts
}

/// Names that a line defines: an item, a field or a variant. Parameters and local variables do not count.
fn defined_names(line: &str) -> Vec<&str> {
    let line = line.trim_start();
    if line.starts_with("//") {
        return Vec::new();
    }
    let name_of = |text: &'static str| move |line: &str| line.find(text).map(|at| at + text.len());
    let mut names = Vec::new();
    let keywords = ["fn ", "struct ", "enum ", "trait ", "type ", "const ", "static ", "mod ", "macro_rules! "];
    for keyword in keywords {
        if let Some(at) = name_of(keyword)(line)
            && line[..at - keyword.len()].chars().next_back().is_none_or(|before| before == ' ' || before == '(')
        {
            names.push(identifier(&line[at..]));
        }
    }
    // `name: Type,` of a struct and `Name,`, `Name(..)`, `Name { .. }` of an enum; both may have `pub` before them.
    let bare =
        line.strip_prefix("pub ").or_else(|| line.split_once(") ").filter(|(v, _)| v.starts_with("pub(")).map(|v| v.1));
    let candidate = identifier(bare.unwrap_or(line));
    let after = &bare.unwrap_or(line)[candidate.len()..];
    let is_field = after.starts_with(": ") && line.ends_with(',') && !line.contains('=');
    let is_variant = candidate.starts_with(char::is_uppercase)
        && (after == "," || (after.starts_with('(') || after.starts_with(" {")) && line.ends_with("},"));
    if is_field || is_variant {
        names.push(candidate);
    }
    names
}

fn identifier(text: &str) -> &str {
    let end = text.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(text.len());
    &text[..end]
}

#[test]
fn retired_words_do_not_come_back() {
    let root = root();
    let mut all = Vec::new();
    files(&root, &mut all);
    assert!(all.len() > 500, "only {} files found below {}", all.len(), root.display());
    let phrases: Vec<String> = rows(PHRASES).map(str::to_lowercase).collect();
    let words: Vec<(&str, &str)> = rows(NAMES).map(|row| row.split_once(' ').expect("`crate word`")).collect();
    let mut found = Vec::new();
    for path in &all {
        let text = fs::read_to_string(path).unwrap_or_default();
        let shown = path.strip_prefix(&root).expect("below the workspace");
        let flat = flattened(&text);
        found.extend(phrases.iter().filter(|phrase| contains_phrase(&flat, phrase)).map(|phrase| {
            let line =
                text.lines().position(|line| contains_phrase(&flattened(line), phrase)).map_or(0, |line| line + 1);
            format!("{}:{line}: \"{phrase}\"", shown.display())
        }));
        let mut place = shown.iter().map(|part| part.to_string_lossy());
        let of_crate = (place.next().as_deref() == Some("crates")).then(|| place.next()).flatten();
        let Some(of_crate) = of_crate.filter(|_| path.extension().is_some_and(|ending| ending == "rs")) else {
            continue;
        };
        let retired = |name: &str| {
            let parts = parts(name);
            words
                .iter()
                .any(|(meant, word)| (*meant == "*" || *meant == of_crate) && parts.iter().any(|part| part == word))
        };
        let stem = path.file_stem().expect("a name").to_string_lossy();
        if retired(&stem) {
            found.push(format!("{}: the file's name", shown.display()));
        }
        for (number, line) in text.lines().enumerate() {
            let names = defined_names(line).into_iter().filter(|name| retired(name));
            found.extend(names.map(|name| format!("{}:{}: {name}", shown.display(), number + 1)));
        }
    }
    assert!(found.is_empty(), "{} retired words:\n{}", found.len(), found.join("\n"));
}

#[test]
fn retired_words_are_recognised() {
    assert_eq!(parts("look_for_fronts"), ["look", "for", "fronts"]);
    assert_eq!(parts("HalfWay2"), ["half", "way2"]);
    assert_eq!(defined_names("    pub(crate) front: Vec<u32>,"), ["front"]);
    assert_eq!(defined_names("pub(super) fn follow_front(&mut self) {"), ["follow_front"]);
    assert_eq!(defined_names("    Showing,"), ["Showing"]);
    assert_eq!(defined_names("pub const FAR: u32 = 1;"), ["FAR"]);
    assert!(defined_names("    let front = self.front;").is_empty());
    assert!(contains_phrase(&flattened("vertices that\n    /// hang together"), "hang together"));
    assert!(!contains_phrase("overhang together", "hang together"));
}
