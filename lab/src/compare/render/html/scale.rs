//! From times to places in a chart.

use crate::format::time;

/// A logarithmic axis of microseconds, which begins and ends with a power of ten.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Scale {
    low: f64,
    high: f64,
}

impl Scale {
    /// One on which all of these have a place.
    pub(super) fn over(times: impl Iterator<Item = f64>) -> Self {
        let times: Vec<f64> = times.filter(|time| *time > 0.0 && time.is_finite()).collect();
        let low = times.iter().copied().reduce(f64::min).unwrap_or(1.0);
        let high = times.iter().copied().reduce(f64::max).unwrap_or(10.0);
        let (low, high) = (10_f64.powf(low.log10().floor()), 10_f64.powf(high.log10().ceil()));
        Self { low, high: if high > low { high } else { low * 10.0 } }
    }

    /// From 0 at the low end to 1 at the high one.
    pub(super) fn place(self, time: f64) -> f64 {
        ((time.max(self.low) / self.low).ln() / (self.high / self.low).ln()).clamp(0.0, 1.0)
    }

    /// The places of lines, and what stands beside them: every power of ten, or every second one if there are many.
    pub(super) fn ticks(self) -> Vec<(f64, String)> {
        let (from, to) = (self.low.log10().round() as i32, self.high.log10().round() as i32);
        let step = if to - from > 4 { 2 } else { 1 };
        let powers = (from..=to).step_by(step).map(|power| 10_f64.powi(power));
        powers.map(|value| (self.place(value), time(value))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithmic_scale_has_its_figures_in_equal_steps() {
        let scale = Scale::over([20.0, 9_000.0].into_iter());
        assert_eq!((scale.low, scale.high), (10.0, 10_000.0));
        assert!((scale.place(100.0) - 1.0 / 3.0).abs() < 1e-9);
        assert_eq!(scale.place(0.0), 0.0);
        let ticks: Vec<String> = scale.ticks().into_iter().map(|(_, text)| text).collect();
        assert_eq!(ticks, ["10 µs", "100 µs", "1 ms", "10 ms"]);
    }

    #[test]
    fn scale_of_a_single_time_has_a_width() {
        let scale = Scale::over([100.0].into_iter());
        assert!(scale.place(100.0).is_finite() && scale.high > scale.low);
        assert!(Scale::over(std::iter::empty()).place(5.0).is_finite());
    }
}
