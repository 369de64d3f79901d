//! Parses GOAL: `num_ranks`, labelled operations of each rank, and their dependencies.

use std::collections::HashMap;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Action {
    Send { to: usize, bytes: u64, tag: u32 },
    Recv { from: usize, bytes: u64, tag: u32 },
    Calc { units: u64 },
}

#[derive(Clone, Debug)]
pub(crate) struct GoalOp {
    pub(crate) action: Action,
    /// Operations that require the end of this one, and those that require its begin.
    pub(crate) required_by: Vec<usize>,
    pub(crate) irequired_by: Vec<usize>,
    pub(crate) dependencies: usize,
}

#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) ranks: Vec<Vec<GoalOp>>,
}

pub(crate) fn parse(text: &str) -> Result<Program, String> {
    let lines = text.lines().map(|line| line.split("//").next().unwrap_or_default());
    let mut words = lines.flat_map(str::split_whitespace);
    let mut next = || words.next();
    let expect = |found: Option<&str>, wanted: &str| match found {
        Some(word) if word == wanted => Ok(()),
        other => Err(format!("{wanted} is expected, and found is {other:?}")),
    };
    expect(next(), "num_ranks")?;
    let count: usize = number(next())?;
    let mut ranks: Vec<Vec<GoalOp>> = (0..count).map(|_| Vec::new()).collect();
    let mut word = next();
    while let Some("rank") = word {
        let rank: usize = number(next())?;
        if rank >= count {
            return Err(format!("rank {rank} of {count}"));
        }
        expect(next(), "{")?;
        let mut labels: HashMap<String, usize> = HashMap::new();
        word = next();
        while word.is_some_and(|word| word != "}") {
            let first = word.unwrap_or_default();
            if let Some(label) = first.strip_suffix(':') {
                let (action, follows) = action(&mut next)?;
                labels.insert(label.to_owned(), ranks[rank].len());
                ranks[rank].push(GoalOp { action, required_by: Vec::new(), irequired_by: Vec::new(), dependencies: 0 });
                word = follows;
            } else {
                let kind = next().unwrap_or_default();
                let find = |label: &str| labels.get(label).copied().ok_or_else(|| format!("no label {label}"));
                let (later, earlier) = (find(first)?, find(next().unwrap_or_default())?);
                match kind {
                    "requires" => ranks[rank][earlier].required_by.push(later),
                    "irequires" => ranks[rank][earlier].irequired_by.push(later),
                    other => return Err(format!("{other} is no dependency")),
                }
                ranks[rank][later].dependencies += 1;
                word = next();
            }
        }
        expect(word, "}")?;
        word = next();
    }
    match word {
        None => Ok(Program { ranks }),
        Some(word) => Err(format!("{word} is not expected here")),
    }
}

/// Parses an operation. Returns it and the word that follows.
fn action<'a>(next: &mut impl FnMut() -> Option<&'a str>) -> Result<(Action, Option<&'a str>), String> {
    let kind = next().unwrap_or_default();
    let (action, mut word) = match kind {
        "calc" => (Action::Calc { units: number(next())? }, next()),
        "send" | "recv" => {
            let bytes = number(next().and_then(|size| size.strip_suffix('b')))?;
            let towards = next();
            let peer = number(next())?;
            let mut word = next();
            let mut tag = 0;
            if word == Some("tag") {
                tag = number(next())?;
                word = next();
            }
            match (kind, towards) {
                ("send", Some("to")) => (Action::Send { to: peer, bytes, tag }, word),
                ("recv", Some("from")) => (Action::Recv { from: peer, bytes, tag }, word),
                _ => return Err(format!("{kind} and {towards:?}")),
            }
        }
        other => return Err(format!("{other} is no operation")),
    };
    while let Some("cpu" | "nic") = word {
        number::<u32>(next())?;
        word = next();
    }
    Ok((action, word))
}

fn number<N: std::str::FromStr>(word: Option<&str>) -> Result<N, String> {
    word.and_then(|word| word.parse().ok()).ok_or_else(|| format!("a number is expected, and found is {word:?}"))
}
