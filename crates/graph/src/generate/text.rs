//! Graphs as people write them: a name, a colon, and arguments with commas between them.

use std::fmt::Display;
use std::str::FromStr;

use crate::{Error, Result};

/// The arguments of a graph that are not used yet.
pub(super) struct Arguments<'a> {
    /// All of it.
    text: &'a str,
    /// An example of what it should look like.
    example: &'a str,
    words: Vec<&'a str>,
}

impl<'a> Arguments<'a> {
    /// `arguments` is what stands behind the colon.
    pub(super) fn new(text: &'a str, example: &'a str, arguments: &'a str) -> Self {
        let words = if arguments.is_empty() { Vec::new() } else { arguments.split(',').collect() };
        Self { text, example, words }
    }

    /// The first argument, which has no name.
    pub(super) fn first<T: FromStr>(&mut self) -> Result<T> {
        match self.words.first() {
            Some(word) if !word.contains('=') => {
                let word = self.words.remove(0);
                word.parse().map_err(|_| self.wrong(format!("`{word}` is not what comes first")))
            }
            _ => Err(self.wrong("the first number is missing")),
        }
    }

    /// The value of a `key=value`, if there is one.
    pub(super) fn value<T: FromStr>(&mut self, key: &str) -> Result<Option<T>> {
        let value = |word: &&'a str| word.strip_prefix(key).and_then(|rest| rest.strip_prefix('='));
        let Some(at) = self.words.iter().position(|word| value(word).is_some()) else { return Ok(None) };
        let word = self.words.remove(at);
        match value(&word).and_then(|value| value.parse().ok()) {
            Some(value) => Ok(Some(value)),
            None => Err(self.wrong(format!("`{word}` has no value that can be used"))),
        }
    }

    /// The same where there must be one.
    pub(super) fn required<T: FromStr>(&mut self, key: &str) -> Result<T> {
        self.value(key)?.ok_or_else(|| self.wrong(format!("`{key}=` is missing")))
    }

    /// Whether a word is there.
    pub(super) fn flag(&mut self, flag: &str) -> bool {
        let at = self.words.iter().position(|word| *word == flag);
        at.map(|at| self.words.remove(at)).is_some()
    }

    /// All arguments must have been used.
    pub(super) fn finish(self) -> Result<()> {
        match self.words.first() {
            Some(word) => Err(self.wrong(format!("`{word}` has no meaning here, or comes twice"))),
            None => Ok(()),
        }
    }

    pub(super) fn wrong(&self, why: impl Display) -> Error {
        Error::Input(format!("`{}` is not a graph as `{}`: {why}", self.text, self.example))
    }
}
