//! The queueing theory of one link.

/// The mean response time (waiting and service) of an M/G/1 queue under SRPT. Jobs arrive as a Poisson process of `rate` jobs per unit
/// of time. `sizes` has the service times and their probabilities. The result is `None` if the load is 1 or more.
///
/// The formula is that of Schrage and Miller (1966). A job of size x first waits until no job with less than x remaining is left. Then
/// it is served, and shorter jobs than its own remainder interrupt it:
///
/// E\[T(x)\] = λ (∫₀ˣ t² dF(t) + x² (1 − F(x))) / (2 (1 − ρ(x))²) + ∫₀ˣ dt / (1 − ρ(t)),   ρ(x) = λ ∫₀ˣ t dF(t).
///
/// The first numerator counts every job once, when it first has at most x remaining. An atom is the limit of a narrow interval.
/// Over an atom, ρ grows from a to b, the numerator keeps its value at the lower end of the interval, and the mean of 1 / (1 − ρ)² is
/// 1 / ((1 − a) (1 − b)). So the sum below is exact for atoms. For a continuous distribution that is given as many quantiles of equal
/// probability, it is the numerical integral.
///
/// # Panics
/// If a size is negative or not a number, or the probabilities do not sum to 1 within 10⁻⁶.
pub fn srpt_mean_response(rate: f64, sizes: &[(f64, f64)]) -> Option<f64> {
    let mut sizes = sizes.to_vec();
    sizes.sort_by(|a, b| a.0.total_cmp(&b.0));
    let total: f64 = sizes.iter().map(|(_, probability)| probability).sum();
    assert!((total - 1.0).abs() < 1e-6, "probabilities sum to {total}");
    assert!(sizes.iter().all(|(size, probability)| *size >= 0.0 && *probability >= 0.0), "negative or not a number");
    let (mut load, mut above, mut square) = (0.0, 1.0, 0.0); // ρ, 1 − F and ∫ t² dF below this atom
    let (mut previous, mut residence, mut mean) = (0.0, 0.0, 0.0);
    for (size, probability) in sizes {
        residence += (size - previous) / (1.0 - load);
        let with_this = load + rate * probability * size;
        if with_this >= 1.0 {
            return None;
        }
        let wait = rate * (square + size * size * above) / (2.0 * (1.0 - load) * (1.0 - with_this));
        mean += probability * (wait + residence);
        square += probability * size * size;
        above -= probability;
        load = with_this;
        previous = size;
    }
    Some(mean)
}
