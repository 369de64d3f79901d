//! How the command says what is wrong: one line on standard error.

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Status for a command line that cannot be understood.
const MISUSED: u8 = 2;

/// Says what is wrong, in one line.
pub(crate) fn complain(what: &str) {
    // If nobody reads it, there is nobody to tell.
    let _ = writeln!(std::io::stderr(), "treepie: {}", one_line(what));
}

pub(crate) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// An error and its causes, each once: some errors have their cause in their own text as well.
pub(crate) fn with_causes(error: &anyhow::Error) -> String {
    let mut told = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if told.is_empty() {
            told = cause;
        } else if !told.contains(&cause) {
            told = format!("{told}: {cause}");
        }
    }
    told
}

/// What to add to the refusal of a word: the one that was probably meant.
pub(crate) fn did_you_mean<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    treepie_base::nearest(word, candidates).map_or_else(String::new, |nearest| format!("; did you mean {nearest}?"))
}

/// Answers a command line that asks for help or is wrong.
pub(crate) fn refuse(error: &clap::Error, words: &[OsString], all: &clap::Command) -> ExitCode {
    if matches!(
        error.kind(),
        ErrorKind::DisplayHelp
            | ErrorKind::DisplayVersion
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
            | ErrorKind::MissingSubcommand
    ) {
        // If nobody reads it, there is nobody to tell.
        let _ = error.print();
        return ExitCode::from(if error.exit_code() == 0 { 0 } else { MISUSED });
    }
    complain(&refusal(error, words, all));
    ExitCode::from(MISUSED)
}

/// What is wrong, and what was probably meant.
fn refusal(error: &clap::Error, words: &[OsString], all: &clap::Command) -> String {
    if let Some(count) = count_after_np(error, words) {
        return format!("there is no option -np; did you mean -n {count}? (try --help)");
    }
    let text = error.to_string();
    // What is wrong comes first; tips and usage follow, each after an empty line.
    let mut parts = text.split("\n\n");
    let wrong = parts.next().unwrap_or_default().trim_start_matches("error: ");
    let tips = parts.flat_map(str::lines).filter_map(|line| line.trim_start().strip_prefix("tip: "));
    let mut tips: String = tips.filter(|tip| tip.contains("similar")).map(|tip| format!("; {tip}")).collect();
    if tips.is_empty() {
        tips = near_subcommand(error, words, all);
    }
    format!("{wrong}{tips} (try --help)")
}

/// The subcommand that was meant: clap takes letters that have changed places for quite another word.
fn near_subcommand(error: &clap::Error, words: &[OsString], all: &clap::Command) -> String {
    let Some(ContextValue::String(wrong)) = error.get(ContextKind::InvalidSubcommand) else { return String::new() };
    let before = words.iter().skip(1).map(|word| word.to_string_lossy()).take_while(|word| word != wrong.as_str());
    let parent = before.into_iter().fold(all, |parent, word| parent.find_subcommand(&*word).unwrap_or(parent));
    did_you_mean(wrong, parent.get_subcommands().filter(|known| !known.is_hide_set()).map(clap::Command::get_name))
}

/// Other launchers have `-np 4`, which is read here as 4 after a number of ranks of `p`, or as an option that does not
/// exist.
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
    fn each_cause_is_told_once() {
        let system = std::io::Error::from_raw_os_error(12);
        let told = format!("cannot make it: {system}");
        let error = anyhow::Error::from(system).context(told.clone());
        assert_eq!(with_causes(&error), told);
        let error = Err::<(), _>(anyhow!("inner")).context("middle").context("outer").unwrap_err();
        assert_eq!(with_causes(&error), "outer: middle: inner");
    }

    #[test]
    fn what_is_near_is_named() {
        assert_eq!(did_you_mean("allgater", ["bcast", "allgather"]), "; did you mean allgather?");
        assert_eq!(did_you_mean("walk", ["bcast", "allgather"]), "");
    }
}
