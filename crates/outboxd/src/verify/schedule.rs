//! What breaks when. Pure: the seed decides, and nothing else.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{RngExt, SeedableRng};

use super::fault::Fault;

/// One of so many steps is something else than a kill, if kills are among the faults: so a short run meets everything.
const OTHERS: u64 = 4;

/// How much of the others are several faults at once.
const MIXED: f64 = 0.3;

/// Between two steps, in milliseconds: messages must get through, or there is nothing to disturb.
const PAUSE: std::ops::Range<u64> = 100..600;

/// One fault of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Break {
    pub(super) fault: Fault,
    pub(super) lasts: Duration,
    /// Whom it meets, and how: whoever carries it out takes it modulo what there is.
    pub(super) choice: u64,
}

/// What happens at the same time, after a pause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) pause: Duration,
    pub(super) breaks: Vec<Break>,
}

/// The steps, without end.
#[derive(Debug)]
pub(super) struct Schedule {
    random: StdRng,
    faults: Vec<Fault>,
    /// The faults besides kills, each once in a random order, before any comes again: so a short run has them all.
    bag: Vec<Fault>,
    lease: Duration,
    steps: u64,
}

impl Schedule {
    /// Without faults its steps are pauses.
    pub(super) fn new(seed: u64, faults: &[Fault], lease: Duration) -> Self {
        Self {
            random: StdRng::seed_from_u64(seed),
            faults: faults.to_vec(),
            bag: Vec::new(),
            lease,
            steps: 0,
        }
    }

    fn draw(&mut self) -> Fault {
        if self.bag.is_empty() {
            self.bag = self.faults.iter().filter(|fault| **fault != Fault::Kill).cloned().collect();
            self.bag.shuffle(&mut self.random);
        }
        self.bag.pop().unwrap_or(Fault::Kill)
    }

    fn break_with(&mut self, fault: Fault) -> Break {
        let (least, most) = fault.lasts(self.lease);
        let lasts = least + (most - least).mul_f64(self.random.random());
        Break { fault, lasts, choice: self.random.random() }
    }

    fn step(&mut self) -> Step {
        if self.faults.is_empty() {
            let pause = Duration::from_millis(PAUSE.end);
            return Step { pause, breaks: Vec::new() };
        }
        self.steps += 1;
        let kills = self.faults.contains(&Fault::Kill) && !self.steps.is_multiple_of(OTHERS);
        let mut faults = if kills { vec![Fault::Kill] } else { vec![self.draw()] };
        if faults[0] != Fault::Kill && self.random.random_bool(MIXED) {
            let more = self.random.random_range(1..=2);
            let others: Vec<Fault> =
                self.faults.iter().filter(|fault| **fault != faults[0]).cloned().collect();
            faults.extend(others.sample(&mut self.random, more).cloned());
        }
        let pause = Duration::from_millis(self.random.random_range(PAUSE));
        Step { pause, breaks: faults.into_iter().map(|fault| self.break_with(fault)).collect() }
    }
}

impl Iterator for Schedule {
    type Item = Step;

    fn next(&mut self) -> Option<Step> {
        Some(self.step())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(2);

    fn steps(seed: u64, faults: &[Fault], count: usize) -> Vec<Step> {
        Schedule::new(seed, faults, LEASE).take(count).collect()
    }

    #[test]
    fn the_seed_decides() {
        assert_eq!(steps(1, &Fault::KNOWN, 200), steps(1, &Fault::KNOWN, 200));
        assert_ne!(steps(1, &Fault::KNOWN, 200), steps(2, &Fault::KNOWN, 200));
    }

    #[test]
    fn every_fault_comes_alone_or_mixed_and_kills_most() {
        let steps = steps(3, &Fault::KNOWN, 400);
        let count = |fault: &Fault| {
            steps.iter().flat_map(|step| &step.breaks).filter(|broken| broken.fault == *fault).count()
        };
        assert!(Fault::KNOWN.iter().all(|fault| count(fault) > 0));
        assert!(count(&Fault::Kill) > 150);
        let mixed = steps.iter().filter(|step| step.breaks.len() > 1).count();
        assert!((20..200).contains(&mixed), "{mixed}");
        for step in &steps {
            assert!((1..=3).contains(&step.breaks.len()));
            let mut faults: Vec<String> = step.breaks.iter().map(|broken| broken.fault.to_string()).collect();
            faults.sort();
            faults.dedup();
            assert_eq!(faults.len(), step.breaks.len(), "no fault twice in a step");
        }
    }

    #[test]
    fn a_halt_outlasts_the_lease() {
        let stops = steps(5, &[Fault::Stop], 50);
        assert!(stops.iter().all(|step| step.breaks[0].lasts > LEASE));
    }

    #[test]
    fn one_fault_alone_is_a_schedule() {
        let kills = steps(4, &[Fault::Kill], 20);
        assert!(kills.iter().all(|step| step.breaks.len() == 1 && step.breaks[0].fault == Fault::Kill));
    }
}
