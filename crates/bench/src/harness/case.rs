//! A case of a benchmark, which Treepie's ranks and the MPI program get as an argument.

use std::fmt;
use std::str::FromStr;

/// A task and how often it is repeated. As text: `pingpong:8:1:3000:9`, which are the task, the count and the batches.
/// Where Treepie has several programs for a task, an `@` and the program follow, for Treepie only:
/// `update:4194304:4194304:9@touch-huge`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case<T, P = OnlyProgram> {
    /// What both sides do.
    pub task: T,
    /// Operations of a batch that are timed.
    pub count: usize,
    /// Number of batches, after one warm-up batch.
    pub batches: usize,
    /// How Treepie does it.
    pub program: P,
}

impl<T: PartialEq, P> Case<T, P> {
    /// The case of the MPI program.
    pub(crate) fn of_peer(&self) -> Case<&T> {
        Case { task: &self.task, count: self.count, batches: self.batches, program: OnlyProgram }
    }

    /// Whether both are one case of the MPI program.
    pub(crate) fn is_same_task(&self, other: &Self) -> bool {
        self.of_peer() == other.of_peer()
    }
}

impl<T: fmt::Display, P: fmt::Display> fmt::Display for Case<T, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { task, count, batches, program } = self;
        write!(f, "{task}:{count}:{batches}")?;
        let program = program.to_string();
        if program.is_empty() { Ok(()) } else { write!(f, "@{program}") }
    }
}

impl<T: FromStr, P: FromStr> FromStr for Case<T, P> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let positive = |number: &str| number.parse().ok().filter(|number| *number > 0);
        let parse = || {
            let (repeated, program) = text.split_once('@').unwrap_or((text, ""));
            let mut parts = repeated.rsplitn(3, ':');
            let (batches, count) = (positive(parts.next()?)?, positive(parts.next()?)?);
            let (task, program) = (parts.next()?.parse().ok()?, program.parse().ok()?);
            Some(Self { task, count, batches, program })
        };
        parse().ok_or_else(|| format!("expected a case such as pingpong:8:1:3000:9, not `{text}`"))
    }
}

/// The program of tasks for which Treepie has no other. Its text is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OnlyProgram;

impl fmt::Display for OnlyProgram {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ok(())
    }
}

impl FromStr for OnlyProgram {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        text.is_empty().then_some(Self).ok_or(())
    }
}

/// Parses a task: its name and `N` numbers, separated by colons.
pub(crate) fn name_and_numbers<const N: usize>(text: &str) -> Option<(&str, [usize; N])> {
    let (name, numbers) = text.split_once(':')?;
    let numbers: Vec<usize> = numbers.split(':').map(|number| number.parse().ok()).collect::<Option<_>>()?;
    Some((name, numbers.try_into().ok()?))
}

/// The name of a value in a table of all values.
pub(crate) fn name_of<T: PartialEq>(names: &[(T, &'static str)], value: T) -> &'static str {
    names.iter().find(|(known, _)| *known == value).expect("all values have names").1
}

/// The value of a name in such a table.
pub(crate) fn value_of<T: Copy>(names: &[(T, &str)], name: &str) -> Option<T> {
    names.iter().find(|(_, known)| *known == name).map(|(value, _)| *value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peer_program_gets_the_part_before_the_program() {
        let case: Case<u32, String> = "7:10:9@fast".parse().unwrap();
        assert_eq!(case, Case { task: 7, count: 10, batches: 9, program: "fast".to_owned() });
        assert_eq!((case.to_string(), case.of_peer().to_string()), ("7:10:9@fast".to_owned(), "7:10:9".to_owned()));
        let slow = Case { program: "slow".to_owned(), ..case.clone() };
        assert!(case.is_same_task(&slow) && !case.is_same_task(&Case { count: 9, ..slow }));
        assert_eq!("7:10:9".parse::<Case<u32>>().unwrap().to_string(), "7:10:9");
        for bad in ["", "7", "7:10", "7:10:0", "7:0:9", "7:10:9@fast", "x:10:9", ":10:9", "7:10:x"] {
            assert!(bad.parse::<Case<u32>>().is_err(), "{bad}");
        }
    }
}
