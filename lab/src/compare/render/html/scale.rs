//! From figures to places in a chart.

use crate::compare::view::Axis;
use crate::format::{count, time};

/// One axis: its ends, and whether each place is so many times the one before.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Scale {
    axis: Axis,
    low: f64,
    high: f64,
}

impl Scale {
    /// One on which all of these have a place. Logarithmic ones begin and end with a power of ten.
    pub(super) fn over(axis: Axis, values: impl Iterator<Item = f64>) -> Self {
        if axis == Axis::Share {
            return Self { axis, low: 0.0, high: 1.0 };
        }
        let values: Vec<f64> = values.filter(|value| *value > 0.0 && value.is_finite()).collect();
        let low = values.iter().copied().reduce(f64::min).unwrap_or(1.0);
        let high = values.iter().copied().reduce(f64::max).unwrap_or(10.0);
        let (low, high) = match axis {
            Axis::Waiters => (low, high),
            _ => (10_f64.powf(low.log10().floor()), 10_f64.powf(high.log10().ceil())),
        };
        Self { axis, low, high: if high > low { high } else { low * 10.0 } }
    }

    /// From 0 at the low end to 1 at the high one.
    pub(super) fn place(self, value: f64) -> f64 {
        let place = match self.axis {
            Axis::Share => value,
            _ => (value.max(self.low) / self.low).ln() / (self.high / self.low).ln(),
        };
        place.clamp(0.0, 1.0)
    }

    /// Where there are lines, and what stands beside them; so few that they do not touch.
    pub(super) fn ticks(self) -> Vec<(f64, String)> {
        let write = |value: f64| match self.axis {
            Axis::Time => time(value),
            Axis::Share => format!("{:.0} %", value * 100.0),
            Axis::Waiters | Axis::Rate => short(value),
        };
        let values: Vec<f64> = match self.axis {
            Axis::Share => vec![0.0, 0.5, 1.0],
            Axis::Waiters => [1.0, 8.0, 64.0, 512.0].into(),
            _ => powers(self.low, self.high),
        };
        let within = values.into_iter().filter(|value| *value >= self.low && *value <= self.high * 1.001);
        within.map(|value| (self.place(value), write(value))).collect()
    }
}

/// Every power of ten, or every second one if there are many.
fn powers(low: f64, high: f64) -> Vec<f64> {
    let (from, to) = (low.log10().round() as i32, high.log10().round() as i32);
    let step = if to - from > 4 { 2 } else { 1 };
    (from..=to).step_by(step).map(|power| 10_f64.powi(power)).collect()
}

fn short(value: f64) -> String {
    if value >= 1e6 {
        format!("{}M", count(value / 1e6))
    } else if value >= 1e3 {
        format!("{}k", count(value / 1e3))
    } else {
        count(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithmic_scale_has_its_figures_in_equal_steps() {
        let scale = Scale::over(Axis::Time, [20.0, 9_000.0].into_iter());
        assert_eq!((scale.low, scale.high), (10.0, 10_000.0));
        assert!((scale.place(100.0) - 1.0 / 3.0).abs() < 1e-9);
        assert_eq!(scale.place(0.0), 0.0);
        let ticks: Vec<String> = scale.ticks().into_iter().map(|(_, text)| text).collect();
        assert_eq!(ticks, ["10 µs", "100 µs", "1 ms", "10 ms"]);
    }

    #[test]
    fn scale_of_a_single_figure_has_a_width() {
        let scale = Scale::over(Axis::Rate, [100.0].into_iter());
        assert!(scale.place(100.0).is_finite() && scale.high > scale.low);
        assert!(Scale::over(Axis::Time, std::iter::empty()).place(5.0).is_finite());
    }
}
