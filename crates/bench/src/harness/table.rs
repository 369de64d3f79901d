//! Result tables.

use super::statistics::geometric_mean;
use crate::record::Record;

/// Width of the name column.
pub(crate) const NAME_WIDTH: usize = 34;

pub(crate) fn print_header(peer: Option<&str>) {
    let theirs = peer.map(|peer| format!(" {peer:>15} {:>6}  95% interval", "ratio"));
    say!("{:<NAME_WIDTH$} {:>5} {:>9} {:>8}{}", "case", "unit", "treepie", "spread", theirs.unwrap_or_default());
}

pub(crate) fn print_record(record: &Record) {
    let theirs = record.against.as_ref().map(|against| {
        let (value, interval) = (format_number(against.peer_value), format_interval(against.interval()));
        format!(" {value:>15} {:>6.2}  {interval}", against.ratio)
    });
    let (value, spread) = (format_number(record.value), format_spread(record));
    say!("{:<NAME_WIDTH$} {:>5} {value:>9} {spread:>8}{}", record.case, record.unit, theirs.unwrap_or_default());
}

/// Prints the geometric mean of the ratios and the worst cell, if there is a baseline.
pub(crate) fn print_ratios(records: &[Record]) {
    let cells = records.iter().filter_map(|record| Some((record, record.against.as_ref()?)));
    let Some((worst, against)) = cells.min_by(|(_, a), (_, b)| a.ratio.total_cmp(&b.ratio)) else { return };
    say!("");
    print_mean("all cells", records);
    say!("worst cell: {} with {:.2} ({})", worst.case, against.ratio, format_interval(against.interval()));
}

/// Prints the geometric mean of the ratios of these records.
pub(crate) fn print_mean<'a>(what: &str, records: impl IntoIterator<Item = &'a Record>) {
    let ratio = |record: &Record| record.against.as_ref().map(|against| against.ratio);
    let ratios: Vec<f64> = records.into_iter().filter_map(ratio).collect();
    if !ratios.is_empty() {
        say!("geometric mean of ratios, {what:<20} {:.3} ({} cells)", geometric_mean(&ratios), ratios.len());
    }
}

pub(crate) fn format_interval(interval: Option<(f64, f64)>) -> String {
    interval.map_or_else(|| "too few pairs".to_owned(), |(low, high)| format!("{low:.2} to {high:.2}"))
}

/// The spread of the samples, if there are several.
pub(crate) fn format_spread(record: &Record) -> String {
    if record.samples > 1 { format_number(record.spread) } else { "-".to_owned() }
}

/// About three significant digits.
pub fn format_number(value: f64) -> String {
    let digits = match value.abs() {
        100.0.. => 0,
        10.0.. => 1,
        1.0.. => 2,
        0.1.. => 3,
        0.01.. => 4,
        _ => 5,
    };
    format!("{value:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_sample_has_no_spread() {
        let record = |samples: &[f64]| {
            Record::measured("case".to_owned(), "shm", 2, samples, ("us", crate::record::Better::Low))
        };
        assert_eq!((format_spread(&record(&[7.0])).as_str(), record(&[7.0]).spread), ("-", 0.0));
        assert_ne!(format_spread(&record(&[7.0, 9.0])), "-");
    }

    #[test]
    fn numbers_have_about_three_digits() {
        assert_eq!([0.2714, 3.456, 34.56, 345.6].map(format_number), ["0.271", "3.46", "34.6", "346"]);
        assert_eq!([0.0271, 0.002714].map(format_number), ["0.0271", "0.00271"]);
    }
}
