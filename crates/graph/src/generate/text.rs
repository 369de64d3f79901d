//! The text form of generators: a name, a colon, and arguments separated by commas.

use std::fmt::Display;
use std::str::FromStr;

use crate::{Error, Result};

/// The arguments of a generator that are not parsed yet.
pub(super) struct GeneratorArguments<'a> {
    /// The whole text.
    text: &'a str,
    /// An example of a valid text.
    example: &'a str,
    words: Vec<&'a str>,
}

impl<'a> GeneratorArguments<'a> {
    /// `arguments` is the text after the colon.
    pub(super) fn new(text: &'a str, example: &'a str, arguments: &'a str) -> Self {
        let words = if arguments.is_empty() { Vec::new() } else { arguments.split(',').collect() };
        Self { text, example, words }
    }

    /// The first argument, which has no key.
    pub(super) fn first<T: FromStr>(&mut self) -> Result<T> {
        match self.words.first() {
            Some(word) if !word.contains('=') => {
                let word = self.words.remove(0);
                word.parse().map_err(|_| self.error(format!("`{word}` is not a valid first argument")))
            }
            _ => Err(self.error("the first argument is missing")),
        }
    }

    /// The value of a `key=value` argument, if there is one.
    pub(super) fn value<T: FromStr>(&mut self, key: &str) -> Result<Option<T>> {
        let value = |word: &&'a str| word.strip_prefix(key).and_then(|rest| rest.strip_prefix('='));
        let Some(at) = self.words.iter().position(|word| value(word).is_some()) else { return Ok(None) };
        let word = self.words.remove(at);
        match value(&word).and_then(|value| value.parse().ok()) {
            Some(value) => Ok(Some(value)),
            None => Err(self.error(format!("`{word}` has an invalid value"))),
        }
    }

    /// The value of a required `key=value` argument.
    pub(super) fn required<T: FromStr>(&mut self, key: &str) -> Result<T> {
        self.value(key)?.ok_or_else(|| self.error(format!("`{key}=` is missing")))
    }

    /// Whether a flag is present.
    pub(super) fn flag(&mut self, flag: &str) -> bool {
        let at = self.words.iter().position(|word| *word == flag);
        at.map(|at| self.words.remove(at)).is_some()
    }

    /// Refuses arguments that were not used.
    pub(super) fn finish(self) -> Result<()> {
        match self.words.first() {
            Some(word) => Err(self.error(format!("`{word}` is unknown here, or repeated"))),
            None => Ok(()),
        }
    }

    pub(super) fn error(&self, why: impl Display) -> Error {
        Error::Input(format!("`{}` is not a generator like `{}`: {why}", self.text, self.example))
    }
}
