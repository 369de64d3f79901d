//! What a hop and a look-up cost, from programs with and without.

use super::super::super::machine::cores;
use super::super::super::record::{Better, Record};
use super::super::statistics::{interval, median, spread};
use super::super::table::{NAME, number};
use super::figures::{Cost, Per, Scale};
use super::runs::Runs;

/// Finds and prints the costs; they are recorded like the others.
pub(super) fn print(scale: Scale, costs: &[Cost], runs: &Runs<'_>, records: &[Record]) -> anyhow::Result<Vec<Record>> {
    let mut made = Vec::new();
    for cost in costs {
        let (base, more) =
            (scale.updates("am/update", cost.base.clone()).name, scale.updates("am/update", cost.more.clone()).name);
        let what = match cost.per {
            Per::Hop => "for each message that is forwarded",
            Per::LookUp => "for each message that is looked for in a cache",
        };
        let Some(nanos) = nanos(scale.ranks, cost.per, runs, &base, &more)? else {
            say!("{:<NAME$} no message of {more} needed it", cost.name);
            continue;
        };
        let between =
            interval(&nanos).map_or("too few runs".to_owned(), |(low, high)| format!("{low:.1} to {high:.1}"));
        let value = median(&nanos);
        say!("{:<NAME$} {:>5} {:>9}  {between:<14}  {what}: {more} less {base}", cost.name, "ns", number(value));
        let like = records.iter().find(|record| record.case == base);
        made.extend(like.map(|like| Record {
            case: cost.name.to_owned(),
            value,
            unit: "ns".to_owned(),
            better: Better::Low,
            spread: spread(&nanos),
            against: None,
            ..like.clone()
        }));
    }
    Ok(made)
}

/// Nanoseconds of a core in each run, unless it was never done.
fn nanos(ranks: u32, per: Per, runs: &Runs<'_>, base: &str, more: &str) -> anyhow::Result<Option<Vec<f64>>> {
    let counted = runs.counted(more)?;
    let times = match per {
        Per::Hop => counted.forwarded,
        Per::LookUp => counted.looked_up,
    };
    if times == 0 || counted.sent == 0 {
        return Ok(None);
    }
    // All ranks together take as much time as there are cores at work.
    let at_work = (ranks as usize).min(cores()) as f64;
    let share = times as f64 / counted.sent as f64;
    let (base, more) = (runs.micros(base)?, runs.micros(more)?);
    Ok(Some(base.iter().zip(&more).map(|(base, more)| (more - base) * 1e3 * at_work / share).collect()))
}

#[cfg(test)]
mod tests {
    use super::super::runs::tests::output;
    use super::*;

    #[test]
    fn costs_are_of_those_messages_that_have_them() {
        let scale = Scale::new(4, 8, None, 0);
        let config = Default::default();
        let figures = scale.figures(&config);
        let outputs: Vec<String> = (0..7).map(|_| output(&figures, |place| 0.01 * (place + 1) as f64)).collect();
        let runs = Runs::read(&figures, &outputs).unwrap();
        let place = |name: &str| figures.iter().position(|figure| figure.name == name).unwrap();
        let (base, more) = ("am/update/touch", "am/update/touch/routing=rook");
        let found = nanos(4, Per::Hop, &runs, base, more).unwrap().unwrap();
        // A quarter of the messages are forwarded.
        let right = 10.0 * (place(more) - place(base)) as f64 * 4.0 * cores().min(4) as f64;
        assert!(found.len() == 7 && found.iter().all(|nanos| (nanos - right).abs() < 1e-6), "{found:?} {right}");
        assert_eq!(nanos(4, Per::Hop, &runs, more, &figures[0].name).unwrap(), None);
        let costs = scale.costs(&config);
        assert!(print(scale, &costs, &runs, &[]).unwrap().is_empty());
    }
}
