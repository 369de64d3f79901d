//! Error messages of the command: one line on standard error.

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Exit status of a usage error.
const USAGE_ERROR_STATUS: u8 = 2;

/// Prints an error as one line.
pub fn print_error(what: &str) {
    // A closed standard error is ignored.
    let _ = writeln!(std::io::stderr(), "treepie: {}", one_line(what));
}

/// The text with every run of white space as one blank.
pub fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// An error and its causes, each once: the text of some errors contains that of their cause.
pub fn with_causes(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

/// The suggestion to append to the error about an unknown word.
pub fn did_you_mean<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    treepie_base::nearest(word, candidates).map_or_else(String::new, |nearest| format!("; did you mean {nearest}?"))
}

/// Prints the help that was requested, or the usage error.
pub fn report_usage_error(error: &clap::Error, words: &[OsString], all: &clap::Command) -> ExitCode {
    if matches!(
        error.kind(),
        ErrorKind::DisplayHelp
            | ErrorKind::DisplayVersion
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
            | ErrorKind::MissingSubcommand
    ) {
        // A closed output is ignored.
        let _ = error.print();
        return ExitCode::from(if error.exit_code() == 0 { 0 } else { USAGE_ERROR_STATUS });
    }
    print_error(&usage_error_text(error, words, all));
    ExitCode::from(USAGE_ERROR_STATUS)
}

/// The error text, with a suggestion.
fn usage_error_text(error: &clap::Error, words: &[OsString], all: &clap::Command) -> String {
    if let Some(count) = count_after_np(error, words) {
        return format!("there is no option -np; did you mean -n {count}? (try --help)");
    }
    let text = error.to_string();
    // The error comes first; tips and usage follow, each after an empty line.
    let mut parts = text.split("\n\n");
    let wrong = parts.next().unwrap_or_default().trim_start_matches("error: ");
    let tips = parts.flat_map(str::lines).filter_map(|line| line.trim_start().strip_prefix("tip: "));
    let mut tips: String = tips.filter(|tip| tip.contains("similar")).map(|tip| format!("; {tip}")).collect();
    if tips.is_empty() {
        tips = suggest_subcommand(error, words, all);
    }
    format!("{wrong}{tips} (try --help)")
}

/// The nearest subcommand: clap's similarity misses transposed letters.
fn suggest_subcommand(error: &clap::Error, words: &[OsString], all: &clap::Command) -> String {
    let Some(ContextValue::String(wrong)) = error.get(ContextKind::InvalidSubcommand) else { return String::new() };
    let before = words.iter().skip(1).map(|word| word.to_string_lossy()).take_while(|word| word != wrong.as_str());
    let parent = before.into_iter().fold(all, |parent, word| parent.find_subcommand(&*word).unwrap_or(parent));
    did_you_mean(wrong, parent.get_subcommands().filter(|known| !known.is_hide_set()).map(clap::Command::get_name))
}

/// Other launchers have `-np 4`, which clap reads as `-n p` followed by 4, or as an unknown option.
fn count_after_np(error: &clap::Error, words: &[OsString]) -> Option<String> {
    let is = |kind, wanted: &[&str]| matches!(error.get(kind), Some(ContextValue::String(text)) if wanted.contains(&text.as_str()));
    let is_np = match error.kind() {
        ErrorKind::ValueValidation | ErrorKind::InvalidValue => is(ContextKind::InvalidValue, &["p"]),
        ErrorKind::UnknownArgument => is(ContextKind::InvalidArg, &["--np"]),
        _ => false,
    };
    let at = words.iter().position(|word| word == "-np" || word == "--np").filter(|_| is_np)?;
    let next = words.get(at + 1).and_then(|word| word.to_str());
    Some(next.filter(|next| next.parse::<u32>().is_ok()).unwrap_or("P").to_owned())
}

#[cfg(test)]
mod tests {
    use anyhow::{Context, anyhow};

    use super::*;

    #[test]
    fn each_cause_is_printed_once() {
        let system = std::io::Error::from_raw_os_error(12);
        let text = format!("cannot make it: {system}");
        let error = anyhow::Error::from(system).context(text.clone());
        assert_eq!(with_causes(&error), text);
        let error = Err::<(), _>(anyhow!("inner")).context("middle").context("outer").unwrap_err();
        assert_eq!(with_causes(&error), "outer: middle: inner");
    }

    #[test]
    fn the_nearest_word_is_suggested() {
        assert_eq!(did_you_mean("allgater", ["bcast", "allgather"]), "; did you mean allgather?");
        assert_eq!(did_you_mean("walk", ["bcast", "allgather"]), "");
    }
}
