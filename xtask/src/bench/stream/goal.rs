//! What a row is meant to reach, and by how much it does not. Best against best: on a shared machine
//! that is what others disturb least.

/// One goal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Goal {
    /// At least this share of the limit's speed.
    OfLimit(f64),
    /// At most so many seconds of all cores for a GB.
    Cpu(f64),
    /// At most so many MiB of peak memory beyond the tensors.
    Beyond(f64),
    /// At least so many times as fast as the row of this name.
    Faster(f64, &'static str),
}

/// What goals are about; absent where there is nothing to compare with.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reached {
    pub(super) of_limit: Option<f64>,
    pub(super) cpu: Option<f64>,
    pub(super) beyond: Option<f64>,
    /// How many times as fast as the row that a goal names.
    pub(super) faster: Option<f64>,
}

impl Goal {
    /// The goal, and whether it is met.
    pub(super) fn told(self, reached: &Reached) -> String {
        let (goal, missed) = match self {
            Self::OfLimit(share) => {
                let missing = reached.of_limit.map(|is| (share - is) * 100.0);
                let missed = missing.map(|points| (points > 0.0, format!("{points:.0} points")));
                (format!(">= {:.0} % of the limit", share * 100.0), missed)
            }
            Self::Cpu(most) => {
                let over = reached.cpu.map(|is| is - most);
                let missed = over.map(|over| (over > 0.0, format!("{over:.2} s")));
                (format!("<= {most} CPU s/GB"), missed)
            }
            Self::Beyond(most) => {
                let over = reached.beyond.map(|is| is - most);
                let missed = over.map(|over| (over > 0.0, format!("{over:.0} MiB")));
                (format!("<= {most:.0} MiB beyond"), missed)
            }
            Self::Faster(times, peer) => {
                let missing = reached.faster.map(|is| times - is);
                let missed = missing.map(|less| (less > 0.0, format!("{less:.1} times")));
                (format!(">= {times:.0} times {peer}"), missed)
            }
        };
        match missed {
            None => format!("{goal}: not compared"),
            Some((true, by)) => format!("{goal}: missed by {by}"),
            Some((false, _)) => format!("{goal}: met"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goals_say_whether_they_are_met_and_else_by_how_much() {
        let reached =
            Reached { of_limit: Some(0.85), cpu: Some(0.44), beyond: Some(12.0), faster: None };
        let told = |goal: Goal| goal.told(&reached);
        assert_eq!(told(Goal::OfLimit(0.9)), ">= 90 % of the limit: missed by 5 points");
        assert_eq!(told(Goal::OfLimit(0.8)), ">= 80 % of the limit: met");
        assert_eq!(told(Goal::Cpu(0.4)), "<= 0.4 CPU s/GB: missed by 0.04 s");
        assert_eq!(told(Goal::Beyond(64.0)), "<= 64 MiB beyond: met");
        assert_eq!(told(Goal::Faster(3.0, "tensorizer")), ">= 3 times tensorizer: not compared");
    }
}
